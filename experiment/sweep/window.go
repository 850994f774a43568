package sweep

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// mostDraws is how often a window is drawn again in which no job was submitted.
const mostDraws = 10_000

// Window is where the stretch of a trace begins that a seed has, of the given length: uniform over the time
// in which jobs were submitted, at moments that are in order, and drawn again where none was.
// It fails where the trace is no longer than that.
func Window(submits []time.Duration, length time.Duration, seed uint64) (time.Duration, error) {
	if len(submits) == 0 || submits[len(submits)-1]-submits[0] <= length {
		span := time.Duration(0)
		if len(submits) > 0 {
			span = submits[len(submits)-1] - submits[0]
		}
		return 0, fmt.Errorf("a window of %s is as long as the trace, %s: write a shorter one", unit.Human(length), unit.Human(span))
	}
	rng := rand.New(rand.NewPCG(seed, 0x77696e646f77))
	room := submits[len(submits)-1] - submits[0] - length
	for range mostDraws {
		from := submits[0] + time.Duration(rng.Int64N(int64(room)+1))
		if i, _ := slices.BinarySearch(submits, from); i < len(submits) && submits[i] < from+length {
			return from, nil
		}
	}
	return 0, fmt.Errorf("hardly any window of %s has a job in it: write a longer one", unit.Human(length))
}
