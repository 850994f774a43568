package live

import (
	"context"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
)

// However a job reports, its curve has 64 points at most, by rising steps, each of them
// one that was reported, with the first and the last step; and what was done again replaces
// what was done before.
func TestCurve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Curve
		last, told := map[int64]float64{}, []int64{}
		step := int64(0)
		for i := range rapid.IntRange(1, 600).Draw(t, "reports") {
			step += int64(rapid.IntRange(1, 50).Draw(t, "by"))
			if rapid.IntRange(0, 60).Draw(t, "back") == 0 {
				step = max(1, step/2)
			}
			loss := 1 + 1/float64(i+1)
			c.Add(&api.Report{Step: step, Loss: loss})
			for len(told) > 0 && told[len(told)-1] >= step {
				told = told[:len(told)-1]
			}
			last[step], told = loss, append(told, step)
			p := c.Points()
			if len(p) > maxCurve+1 || p[len(p)-1] != (api.LossPoint{Step: step, Loss: loss}) {
				t.Fatalf("%d points after step %d, the last is %+v", len(p), step, p[len(p)-1])
			}
			for k, q := range p {
				if last[q.Step] != q.Loss || k > 0 && q.Step <= p[k-1].Step {
					t.Fatalf("%+v after step %d", p, step)
				}
			}
		}
		widest, p := int64(0), c.Points()
		for k := range p[1:] {
			widest = max(widest, p[k+1].Step-p[k].Step)
		}
		if span := p[len(p)-1].Step - p[0].Step; len(told) > 4*maxCurve && float64(widest) > math.Max(200, float64(span)/6) {
			t.Fatalf("between two points lie %d of %d steps", widest, span)
		}
	})
	var c Curve
	c.Add(&api.Report{Loss: 1})
	c.Add(&api.Report{Step: 5})
	if len(c.Points()) > 0 {
		t.Errorf("%+v", c.Points())
	}
}

// How a job stood is known while it is there, under the next daemon, and after its end, to
// its user.
func TestCourse(t *testing.T) {
	w := newPaper(t)
	ctx := context.Background()
	a, b := w.submit(2), w.submit(1)
	course := func(id string, c server.Caller) (out string) {
		t.Helper()
		y, err := w.Why(ctx, c, id)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range y.Course {
			if i > 0 && (s.From.Before(y.Course[i-1].To) || y.Course[i-1].To.IsZero()) || !s.To.IsZero() && s.To.Before(s.From) {
				t.Errorf("job %s stood %+v", id, y.Course)
			}
			out += string(s.State) + " " + s.On + ";"
		}
		return out
	}
	w.until("1 running, 2 waiting")
	if have := course(a, me); have != "running gpu0, gpu1;" {
		t.Errorf("who runs stood %q", have)
	}
	if have := course(b, me); have != "waiting ;" {
		t.Errorf("who waits stood %q", have)
	}
	w.end(a)
	w.until("1 done, 2 running")
	for _, when := range []string{"under this daemon", "under the next one"} {
		if have := course(b, me); have != "waiting ;running gpu0;" {
			t.Errorf("%s it stood %q", when, have)
		}
		w.down()
		w.up()
	}
	ok(t, w.Do(ctx, me, server.Cancel, b))
	w.until("1 done, 2 cancelled")
	for _, id := range []string{a, b} {
		y, err := w.Why(ctx, me, id)
		if err != nil || len(y.Life) == 0 || len(y.Course) == 0 || y.Course[len(y.Course)-1].To.IsZero() {
			t.Errorf("of ended job %s: %+v, %v", id, y, err)
		}
	}
	if _, err := w.Why(ctx, server.Caller{User: "bob"}, a); err == nil {
		t.Error("another user is told")
	}
}
