package report

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// On four GPUs, a asks for 4, from 20 s on for 8 and from 100 s on for 4; it holds 4
// until 100 s and from 150 s on. b asks for 2 from 10 s on and holds them from 100 s to
// 150 s. While both ask, each is due 2.
func TestSharesByHand(t *testing.T) {
	c, s := small(t)
	dues := c.Result(s).Dues
	if len(dues) != 2 {
		t.Fatalf("%d tenants, want 2", len(dues))
	}
	want := []string{
		"a asked 1320 held 800 due 720 short 100",
		"b asked 280 held 100 due 280 short 180",
	}
	for i, d := range dues {
		got := fmt.Sprintf("%s asked %.0f held %.0f due %.0f short %.0f", d.Name, 3600*d.Asked, 3600*d.Allocated, 3600*d.Due, 3600*d.Short)
		if got != want[i] {
			t.Errorf("%s, want %s (GPU-seconds)", got, want[i])
		}
	}
	if v := shareViews(dues); len(v) != 2 || v[1].Filled != "M0 1V1H100V0.5H150V1H250V1Z" || v[1].Line != "M0 1V1H10V0.5H150V1H250" {
		t.Errorf("drawn as %+v", v)
	}
}

// The figures of a tenant add up, however often slots were joined. Its jobs
// held what their records say, and no tenant is due more than was asked for or
// held, all together no more than was there.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c, s := play(t, setup{jobs: rapid.IntRange(1, 80).Draw(rt, "jobs"), seed: rapid.Uint64().Draw(rt, "seed"), opt: Options{Series: true}})
		sh := c.shares.upTo(c.flow.now, s.Now)
		allocated, asked, due := 0.0, 0.0, 0.0
		for _, d := range sh.dues(s) {
			allocated, asked, due = allocated+d.Allocated, asked+d.Asked, due+d.Due
			if d.Due > d.Asked+d.Allocated+1e-9 || d.Short < 0 || d.Short > d.Due+1e-9 {
				rt.Errorf("%+v", d)
			}
		}
		there := 0.0
		for _, slot := range sh.there.slots[:sh.n] {
			there += slot.allocated / 3600 / float64(unit.One)
		}
		if due > there*(1+1e-9) {
			rt.Errorf("%v GPU-hours were due of %v", due, there)
		}
		if told := (s.Now - sh.start).Seconds(); sh.n > slots || sh.end() < s.Now || sh.n > 1 && told <= sh.width.Seconds() {
			rt.Errorf("%d slots of %v for %v s", sh.n, sh.width, told)
		}
		service := 0.0
		for id := range job.ID(s.Jobs()) {
			service += s.Record(id).ServiceAt(s.Now) / 3600
		}
		if math.Abs(allocated-service) > 1e-6*max(1, service) {
			rt.Errorf("tenants held %v GPU-hours, the jobs %v", allocated, service)
		}
	})
}
