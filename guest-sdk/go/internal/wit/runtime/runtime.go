// Package runtime is the memory side of wit-bindgen's generated Go code. Go's collector does not move objects,
// so a reference is enough to keep what the host wrote.
package runtime

import (
	"runtime"
	"unsafe"
)

// held keeps what cabi_realloc gave out until the export has built its parameters from it.
var held []unsafe.Pointer

const chunk = 64 << 10

var bump unsafe.Pointer
var left uintptr

// Allocate gives memory that lives until the pinner is unpinned.
func Allocate(p *runtime.Pinner, size, align uintptr) unsafe.Pointer {
	if size == 0 {
		return nil
	}
	b := make([]uint64, (size+7)/8)
	ptr := unsafe.Pointer(unsafe.SliceData(b))
	p.Pin(ptr)
	return ptr
}

// Unpin forgets the parameters' memory; the values lifted from it keep it alive while they are used.
func Unpin() {
	clear(held)
	held = held[:0]
	left = 0
	bump = nil
}

//go:wasmexport cabi_realloc
func cabiRealloc(old unsafe.Pointer, oldSize, align, size uintptr) unsafe.Pointer {
	if size == 0 {
		return nil
	}
	need := (size + 7) &^ 7 // every piece is 8-aligned, the largest alignment of the canonical ABI
	var p unsafe.Pointer
	if need > chunk/4 {
		p = unsafe.Pointer(unsafe.SliceData(make([]uint64, need/8)))
		held = append(held, p)
	} else {
		if left < need {
			bump = unsafe.Pointer(unsafe.SliceData(make([]uint64, chunk/8)))
			held = append(held, bump)
			left = chunk
		}
		p = bump
		bump = unsafe.Add(bump, need)
		left -= need
		if left == 0 {
			bump = nil
		}
	}
	if old != nil {
		copy(unsafe.Slice((*byte)(p), size), unsafe.Slice((*byte)(old), min(oldSize, size)))
	}
	return p
}
