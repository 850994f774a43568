package selftest

import (
	"encoding/binary"
	"hash/fnv"
)

// The work of jobs, and what must come of it. Each word x of a vector is stepped again
// and again, x = a*x + c. After any number of steps the vector is known without taking
// them, so that a result is right or wrong by itself.

const (
	factor    = 1664525 // Numerical Recipes' generator, modulo 2^32
	increment = 1013904223
	pattern   = 0x5eed1e55 // what memory that is held is filled with

	// Rounds are odd: a power of two of them leaves the low bits of a word as they were.
	gpuWords, gpuRounds = 1 << 16, 1<<17 - 1
	cpuWords, cpuRounds = 1 << 10, 1<<7 - 1
)

// place is where a job works: the processors, or a GPU.
type place interface {
	// size is how long the vector is, and how often a step steps each word.
	size() (words, rounds int)
	put(words []uint32) error
	take(words []uint32) error
	compute() error
	// hold takes memory and fills it with a pattern; intact tells whether all that is
	// held has it still.
	hold(bytes int64) error
	intact() (bool, error)
	tell(n *note) error
}

// beginning is the vector before the first step.
func beginning(words int) []uint32 {
	v := make([]uint32, words)
	for i := range v {
		v[i] = uint32(i)
	}
	return v
}

// digest is a number that stands for a vector.
func digest(v []uint32) uint32 {
	h := fnv.New32a()
	for _, x := range v {
		h.Write(binary.LittleEndian.AppendUint32(nil, x))
	}
	return h.Sum32()
}

// expected is the digest of the vector after so many steps: n rounds of x = a*x + c are
// one of x = A*x + C, which is found by squaring.
func expected(words, rounds, steps int) uint32 {
	a, c := uint32(factor), uint32(increment)
	all, shift := uint32(1), uint32(0)
	for n := uint64(rounds) * uint64(steps); n > 0; n >>= 1 {
		if n&1 == 1 {
			all, shift = a*all, a*shift+c
		}
		a, c = a*a, a*c+c
	}
	v := beginning(words)
	for i, x := range v {
		v[i] = all*x + shift
	}
	return digest(v)
}

// processors are the processors and main memory as a place to work.
type processors struct {
	vector []uint32
	held   [][]uint32
}

func (p *processors) size() (words, rounds int) { return cpuWords, cpuRounds }

func (p *processors) put(words []uint32) error {
	p.vector = append([]uint32(nil), words...)
	return nil
}

func (p *processors) take(words []uint32) error {
	copy(words, p.vector)
	return nil
}

func (p *processors) compute() error {
	for i, x := range p.vector {
		for range cpuRounds {
			x = factor*x + increment
		}
		p.vector[i] = x
	}
	return nil
}

func (p *processors) hold(bytes int64) error {
	words := make([]uint32, bytes/4)
	for i := range words {
		words[i] = pattern
	}
	p.held = append(p.held, words)
	return nil
}

func (p *processors) intact() (bool, error) {
	for _, words := range p.held {
		for _, w := range words {
			if w != pattern {
				return false, nil
			}
		}
	}
	return true, nil
}

func (p *processors) tell(*note) error { return nil }
