// Package types has the generic shapes that wit-bindgen's generated Go code refers to.
package types

type Unit struct{}

const (
	ResultOk  uint8 = 0
	ResultErr uint8 = 1
)

type Result[T, E any] struct {
	tag uint8
	ok  T
	err E
}

func (r Result[T, E]) Tag() uint8  { return r.tag }
func (r Result[T, E]) IsOk() bool  { return r.tag == ResultOk }
func (r Result[T, E]) IsErr() bool { return r.tag == ResultErr }
func (r Result[T, E]) Ok() T {
	if r.tag != ResultOk {
		panic("not ok")
	}
	return r.ok
}
func (r Result[T, E]) Err() E {
	if r.tag != ResultErr {
		panic("not err")
	}
	return r.err
}
func Ok[T, E any](v T) Result[T, E]  { return Result[T, E]{tag: ResultOk, ok: v} }
func Err[T, E any](e E) Result[T, E] { return Result[T, E]{tag: ResultErr, err: e} }

const (
	OptionNone uint8 = 0
	OptionSome uint8 = 1
)

type Option[T any] struct {
	tag uint8
	val T
}

func Some[T any](v T) Option[T]  { return Option[T]{OptionSome, v} }
func None[T any]() Option[T]     { return Option[T]{} }
func (o Option[T]) Tag() uint8   { return o.tag }
func (o Option[T]) IsSome() bool { return o.tag == OptionSome }
func (o Option[T]) IsNone() bool { return o.tag == OptionNone }
func (o Option[T]) Some() T {
	if o.tag != OptionSome {
		panic("none")
	}
	return o.val
}
func (o Option[T]) SomeOr(d T) T {
	if o.tag == OptionSome {
		return o.val
	}
	return d
}

type Tuple2[A, B any] struct {
	F0 A
	F1 B
}
type Tuple3[A, B, C any] struct {
	F0 A
	F1 B
	F2 C
}
