module github.com/tidegate/tidegate/guest-sdk/go

go 1.24
