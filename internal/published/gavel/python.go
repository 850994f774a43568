package gavel

import "math/bits"

// python is the random source of Python, random.Random, seeded with a small whole
// number: the Mersenne Twister MT19937 of Matsumoto and Nishimura.
type python struct {
	state [624]uint32
	at    int
}

// newPython seeds a source as random.seed does: by an array, here of one number.
func newPython(seed uint32) *python {
	p := &python{at: 624}
	p.state[0] = 19650218
	for i := uint32(1); i < 624; i++ {
		p.state[i] = 1812433253*(p.state[i-1]^p.state[i-1]>>30) + i
	}
	i := 1
	next := func() {
		if i++; i == 624 {
			p.state[0], i = p.state[623], 1
		}
	}
	for range 624 {
		p.state[i] = (p.state[i] ^ (p.state[i-1]^p.state[i-1]>>30)*1664525) + seed
		next()
	}
	for range 623 {
		p.state[i] = (p.state[i] ^ (p.state[i-1]^p.state[i-1]>>30)*1566083941) - uint32(i)
		next()
	}
	p.state[0] = 1 << 31
	return p
}

func (p *python) next() uint32 {
	if p.at == 624 {
		for i := range 624 {
			y := p.state[i]&(1<<31) | p.state[(i+1)%624]&(1<<31-1)
			v := p.state[(i+397)%624] ^ y>>1
			if y&1 != 0 {
				v ^= 0x9908b0df
			}
			p.state[i] = v
		}
		p.at = 0
	}
	y := p.state[p.at]
	p.at++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// below is a number from 0 to n-1, as randrange(n) draws it.
func (p *python) below(n int) int {
	k := bits.Len(uint(n))
	for {
		if r := int(p.next() >> (32 - k)); r < n {
			return r
		}
	}
}

// shuffle puts things in random order, as random.shuffle does.
func shuffle[T any](p *python, x []T) {
	for i := len(x) - 1; i > 0; i-- {
		j := p.below(i + 1)
		x[i], x[j] = x[j], x[i]
	}
}
