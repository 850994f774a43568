package iadeep

import (
	"math"

	"github.com/norn-scheduler/norn/job"
)

// A memo on the job that came last to a GPU says what its tuning has measured so far,
// and later what the interference was when it came and beside whom. So a policy that
// starts anew goes on with both.
//
//	tuning: [0] mark, 4 values; [1] jobs on the GPU less one (0: two that are tuned at once), 5 values
//	record: [0] mark, sign of the sort of the fourth of the others, value; [1] signs of the first three
const (
	tuningMark = 0x1ad3
	recordMark = 0x1ad1
	aloneMark  = 0x1ad2 // the memory of its GPU ran out when it shared one: it shares no more

	codeBits = 12
	signBits = 21

	maxTrials = 9
	maxJobs   = 5 // on a GPU
)

// A value is kept as the logarithm of the sum of PDs in 4,095 steps from 1/16 to 256,
// each 0.2 % more than the one before; 0 is none.
const (
	leastValue = 1.0 / 16
	mostValue  = 256.0
	codes      = 1<<codeBits - 1
)

func encode(value float64) uint64 {
	x := math.Log(max(leastValue, min(mostValue, value))/leastValue) / math.Log(mostValue/leastValue)
	return 1 + uint64(math.Round(x*(codes-1)))
}

func decode(code uint64) float64 {
	return leastValue * math.Exp(float64(code-1)/(codes-1)*math.Log(mostValue/leastValue))
}

// tuning is what a memo says of one.
type tuning struct {
	jobs   int  // on the GPU
	joint  bool // the two that share it are tuned at once
	values []float64
}

func (t *tuning) memo() job.Memo {
	a, b := uint64(tuningMark)<<48, uint64(t.jobs-1)<<60
	if t.joint {
		b = 0
	}
	for i, v := range t.values {
		if i < 4 {
			a |= encode(v) << (codeBits * i)
		} else {
			b |= encode(v) << (codeBits * (i - 4))
		}
	}
	return job.Memo{int64(a), int64(b)}
}

func readTuning(m job.Memo) (t tuning, ok bool) {
	a, b := uint64(m[0]), uint64(m[1])
	if a>>48 != tuningMark {
		return t, false
	}
	if t.jobs = int(b>>60&7) + 1; t.jobs == 1 {
		t.jobs, t.joint = 2, true
	}
	for i := range maxTrials {
		code := a >> (codeBits * i)
		if i >= 4 {
			code = b >> (codeBits * (i - 4))
		}
		if code &= codes; code == 0 {
			break
		}
		t.values = append(t.values, decode(code))
	}
	return t, true
}

// newRecord says what the interference was when a job came to others, by their signs.
func newRecord(sum float64, with []uint32) job.Memo {
	a, b := uint64(recordMark)<<48|encode(sum+float64(len(with)+1)), uint64(0)
	for i, s := range with {
		if i < 3 {
			b |= uint64(s) << (signBits * i)
		} else {
			a |= uint64(s) << codeBits
		}
	}
	return job.Memo{int64(a), int64(b)}
}

func readRecord(m job.Memo) (sum float64, with []uint32, ok bool) {
	a, b := uint64(m[0]), uint64(m[1])
	if a>>48 != recordMark || a&codes == 0 {
		return 0, nil, false
	}
	for ; b != 0; b >>= signBits {
		with = append(with, uint32(b&(1<<signBits-1)))
	}
	if s := uint32(a >> codeBits & (1<<signBits - 1)); s != 0 {
		with = append(with, s)
	}
	return decode(a&codes) - float64(len(with)+1), with, true
}
