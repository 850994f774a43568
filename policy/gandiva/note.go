package gandiva

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// link is what a job has to do with another one.
type link uint8

const (
	apart  link = iota
	failed      // packing them did not help: the next to be tried is the one behind it
	trying      // they are packed and being measured
	paired      // they are packed
)

// note is what stands on a job: 64 + 64 bits.
type note struct {
	home  cluster.NodeID // the first node of the server it lives on; None: nowhere
	parts bool           // it lies on parts of several nodes
	link  link
	with  job.ID
	vain  bool          // more GPUs did not make it faster
	stamp time.Duration // when it went to the end of the list of its server, whole ms
	rate  float64       // measured when it had its GPUs for itself; 0: not yet
	use   float64       // of the GPUs, measured then; below 0: not known
}

const (
	homeBits, withBits          = 22, 30
	stampBits, rateBits, useBit = 38, 18, 7
	tagBits, tag                = 8, 0xa7 // what other policies wrote is not read
	rateUnit                    = 1 << 13 // a rate is told to 1/8192
)

// noise is a gain too small to be told from none, with rates rounded.
const noise = 1e-3

// stamp is this moment as a note can hold it.
func (g *policy) stamp() time.Duration { return g.v.Now.Truncate(time.Millisecond) }

// read reads the note of a job.
func read(m job.Memo) note {
	field := func(w *uint64, bits int) int64 {
		x := *w & (1<<bits - 1)
		*w >>= bits
		return int64(x)
	}
	a, b := uint64(m[0]), uint64(m[1])
	n := note{home: cluster.NodeID(field(&a, homeBits)) - 1}
	n.parts = field(&a, 1) == 1
	n.link = link(field(&a, 2))
	n.with = job.ID(field(&a, withBits))
	if field(&a, tagBits) != tag {
		return note{home: cluster.None, with: job.None, use: -1}
	}
	n.vain = field(&a, 1) == 1
	n.stamp = time.Duration(field(&b, stampBits)) * time.Millisecond
	n.rate = float64(field(&b, rateBits)) / rateUnit
	n.use = float64(field(&b, useBit)-1) / 100
	return n
}

// memo writes it. What is out of range, a node beyond four million, is not
// remembered.
func (n note) memo() job.Memo {
	var a, b uint64
	at := 0
	bit := map[bool]int64{true: 1}
	put := func(w *uint64, bits int, x int64) {
		if x < 0 || x >= 1<<bits {
			x = 0
		}
		*w |= uint64(x) << at
		at += bits
	}
	put(&a, homeBits, int64(n.home)+1)
	put(&a, 1, bit[n.parts])
	put(&a, 2, int64(n.link))
	put(&a, withBits, int64(n.with))
	put(&a, tagBits, tag)
	put(&a, 1, bit[n.vain])
	at = 0
	put(&b, stampBits, int64(n.stamp/time.Millisecond))
	put(&b, rateBits, min(int64(n.rate*rateUnit+0.5), 1<<rateBits-1))
	put(&b, useBit, int64(n.use*100+0.5)+1)
	return job.Memo{int64(a), int64(b)}
}
