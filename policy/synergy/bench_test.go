package synergy

import (
	"strconv"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// BenchmarkDecide is one decision with 1,000 jobs that run on 4,096 GPUs and 1,000 that
// wait. Under las all of those go before the others, under fifo everybody stays.
func BenchmarkDecide(b *testing.B) {
	var jobs []simtest.Job
	for i := range 2000 {
		j := simtest.Job{Key: strconv.Itoa(i), Model: models[i%10], GPUs: []int{1, 2, 4, 8}[i%4], Run: 10_000}
		if i%4 == 2 || i%8 == 7 {
			j.GPUs = 4
		}
		if i >= 1000 {
			j.At = 299
		}
		jobs = append(jobs, j)
	}
	for _, c := range []struct {
		name  string
		order Order
		share Share
	}{{"las", LAS, Tune}, {"fifo", FIFO, Tune}, {"proportional", LAS, Proportional}, {"opt", LAS, Opt}} {
		b.Run(c.name, func(b *testing.B) {
			m := &perf.Grids{Models: perf.MeasuredGrids()}
			cfg := with(c.order, c.share)
			cfg.Fill = false
			simtest.Go(b, simtest.Config{Cluster: nodes(b, 512, 8, 24, 500), Model: m, Speeds: m, Unchecked: true, Make: func() (sched.Policy, error) {
				p, err := cfg.Policy()
				return &simtest.Timed{Policy: p, B: b, At: 5 * time.Minute}, err
			}}, jobs...)
		})
	}
}
