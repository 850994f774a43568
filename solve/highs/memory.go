package highs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/norn-scheduler/norn/solve"
)

// block is a piece of the memory of an instance, handed out from its start.
// Data that does not fit, which is a mistake of the caller, panics in Go and
// never writes beyond the block.
type block struct {
	in   *instance
	at   uint64
	used int
	size int
}

var errMemory = errors.New("no memory is left")

// block gets a piece that holds size bytes, and what aligning up to ten arrays costs.
func (s *session) block(size int) (*block, error) {
	size += 8 * 10
	if size > math.MaxInt32 {
		return nil, errMemory
	}
	at, err := s.in.call("malloc", uint64(size))
	if err != nil {
		return nil, err
	}
	if uint32(at) == 0 {
		return nil, errMemory
	}
	return &block{in: s.in, at: uint64(uint32(at)), size: size}, nil
}

func (b *block) free() error {
	_, err := b.in.call("free", b.at)
	return err
}

// room is the address of the next n bytes, aligned to eight.
func (b *block) room(n int) uint64 {
	b.used = (b.used + 7) &^ 7
	if b.used+n > b.size {
		panic(fmt.Sprintf("highs: block of %d bytes is too small", b.size))
	}
	at := b.at + uint64(b.used)
	b.used += n
	return at
}

// read is a view of the memory, which holds until HiGHS runs again.
func (b *block) read(at uint64, n int) []byte {
	view, ok := b.in.memory.Read(uint32(at), uint32(n))
	if !ok {
		panic(fmt.Sprintf("highs: %d bytes at %d are outside of the memory", n, at))
	}
	return view
}

func (b *block) text(s string) uint64 {
	at := b.room(len(s) + 1)
	view := b.read(at, len(s)+1)
	copy(view, s)
	view[len(s)] = 0
	return at
}

func (b *block) floats(v []float64) uint64 {
	at := b.room(8 * len(v))
	view := b.read(at, 8*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint64(view[8*i:], math.Float64bits(x))
	}
	return at
}

func (b *block) ints(v []int32) uint64 {
	at := b.room(4 * len(v))
	view := b.read(at, 4*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint32(view[4*i:], uint32(x))
	}
	return at
}

func (b *block) stands(v []solve.Stand) uint64 {
	wide := make([]int32, len(v))
	for i, x := range v {
		wide[i] = int32(x)
	}
	return b.ints(wide)
}

func (b *block) readFloats(at uint64, n int) []float64 {
	out := make([]float64, n)
	view := b.read(at, 8*n)
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(view[8*i:]))
	}
	return out
}

func (b *block) readStands(at uint64, n int) []solve.Stand {
	out := make([]solve.Stand, n)
	view := b.read(at, 4*n)
	for i := range out {
		out[i] = solve.Stand(view[4*i])
	}
	return out
}
