package allox

import (
	"fmt"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// BenchmarkSolve is one matching of all jobs: AlloX-opt, no limit.
func BenchmarkSolve(b *testing.B) {
	for _, jobs := range []int{50, 100, 500, 2000} {
		for _, kinds := range []int{3, 6} {
			p := ladder(jobs, kinds)
			b.Run(fmt.Sprintf("%djobs/%dtypes", jobs, kinds), func(b *testing.B) {
				for b.Loop() {
					p.Solve()
				}
			})
		}
	}
}

// spread gives each job another speed on each type.
type spread struct{ perf.Reference }

func (spread) On(j *job.Job, _ *cluster.Cluster, t cluster.TypeID, _ int, _ bool) float64 {
	return 0.3 + float64((int(j.ID)*7919+int(t)*104729)%1000)/500
}

// BenchmarkDecide is one decision with so many jobs of ten users that wait, and free
// machines for a tenth of them on each type: all that is started then.
func BenchmarkDecide(b *testing.B) {
	for _, jobs := range []int{100, 500, 2000} {
		for _, types := range []int{3, 6} {
			for _, alpha := range []float64{0.1, 1} {
				b.Run(fmt.Sprintf("%djobs/%dtypes/alpha%v", jobs, types, alpha), func(b *testing.B) {
					c := cluster.New()
					for k := range types {
						t, err := c.AddType(cluster.GPUType{Name: fmt.Sprint("t", k)})
						if err != nil {
							b.Fatal(err)
						}
						for range jobs / 50 {
							if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: t, Count: 5}}}); err != nil {
								b.Fatal(err)
							}
						}
					}
					var all []simtest.Job
					for i := range jobs {
						all = append(all, simtest.Job{Key: fmt.Sprint(i), Tenant: fmt.Sprint("u", i%10), GPUs: 1, Run: float64(10 + i*7919%100_000)})
					}
					cfg := *NewConfig()
					cfg.Alpha = alpha
					simtest.Go(b, simtest.Config{Cluster: c, Speeds: spread{}, Unchecked: true, Make: func() (sched.Policy, error) {
						p, err := cfg.Policy()
						return &simtest.Timed{Policy: p, B: b}, err
					}}, all...)
				})
			}
		}
	}
}
