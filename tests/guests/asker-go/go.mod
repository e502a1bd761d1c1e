module asker

go 1.24

require github.com/tidegate/tidegate/guest-sdk/go v0.0.0

replace github.com/tidegate/tidegate/guest-sdk/go => ./tidegate
