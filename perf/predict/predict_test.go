package predict_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf/predict"
)

const day = 24 * time.Hour

// done is a job that has ended.
type done struct {
	user, name string
	gpus       int
	ran        float64 // seconds
	submit     time.Duration
}

func (d done) job() *job.Job {
	demand := job.GPUs(d.gpus)
	return &job.Job{Key: fmt.Sprint(d.user, d.name, d.submit), User: d.user, Name: d.name, Submit: d.submit, Demand: &demand}
}

func history(change func(*predict.Rolling), past ...done) *predict.History {
	cfg := predict.DefaultRolling()
	if change != nil {
		change(&cfg)
	}
	h := predict.NewHistory(cfg)
	for _, d := range past {
		h.Observe(d.job(), time.Duration(d.ran*1e9))
	}
	return h
}

func expect(t *testing.T, h *predict.History, j *job.Job, want float64) {
	t.Helper()
	d, ok := h.Estimate(j)
	if !ok || math.Abs(d.Seconds()-want) > 1e-6 {
		t.Errorf("estimate of %s %q is %v (%v), want %v s", j.User, j.Name, d.Seconds(), ok, want)
	}
}

// TestNewUser is the second statement of the acceptance of the spec: jobs of 100
// and 300 s with two GPUs and one of 50 s with one GPU make 200 s for a new user
// who asks for two.
func TestNewUser(t *testing.T) {
	h := history(nil, done{user: "a", gpus: 2, ran: 100}, done{user: "b", gpus: 2, ran: 300}, done{user: "a", gpus: 1, ran: 50})
	expect(t, h, done{user: "new", gpus: 2}.job(), 200)
	expect(t, h, done{user: "new", gpus: 1}.job(), 50)
	expect(t, h, done{user: "new", gpus: 7}.job(), 150) // nobody asked for seven
	if _, ok := history(nil).Estimate(done{user: "new", gpus: 2}.job()); ok {
		t.Error("an estimate from nothing")
	}
}

// TestRollingCases are the cases of the rolling estimate (Hu et al., section
// 4.2; spec, section 2). Without a similar name, the user's jobs of equal size
// count. With one, the user's jobs with such names count, with weight 0.7 to
// the power of their age.
func TestRollingCases(t *testing.T) {
	h := history(nil,
		done{user: "a", name: "resnet", gpus: 2, ran: 100}, done{user: "a", name: "resnet", gpus: 8, ran: 200},
		done{user: "a", name: "zzz", gpus: 2, ran: 50}, done{user: "b", name: "qqqqq", gpus: 2, ran: 7000},
	)
	expect(t, h, done{user: "a", name: "resnet", gpus: 1}.job(), (200+0.7*100)/1.7)
	expect(t, h, done{user: "a", name: "resnet_v2 2020-09-01", gpus: 1}.job(), (200+0.7*100)/1.7) // similarity 6/8
	expect(t, h, done{user: "a", name: "qqqqq", gpus: 2}.job(), 75)                               // b's name, but not a's
	expect(t, h, done{user: "a", name: "qqqqq", gpus: 3}.job(), 350.0/3)                          // a never asked for three
	expect(t, h, done{user: "a", gpus: 8}.job(), 200)
	expect(t, h, done{user: "b", name: "unheard", gpus: 2}.job(), 7000)
}

// TestSimilarNames: an equal name counts alone; otherwise the two most similar
// ones count, if they are similar enough.
func TestSimilarNames(t *testing.T) {
	past := []done{
		{user: "a", name: "bert-large-a", gpus: 1, ran: 10}, {user: "a", name: "bert-large-abc", gpus: 1, ran: 20},
		{user: "a", name: "bert-large-abcde", gpus: 1, ran: 40}, {user: "a", name: "gpt", gpus: 1, ran: 1000},
	}
	plain := func(c *predict.Rolling) { c.Decay = 1 }
	h := history(plain, past...)
	expect(t, h, done{user: "a", name: "bert-large-a", gpus: 1}.job(), 10)
	expect(t, h, done{user: "a", name: "bert-large-ab", gpus: 1}.job(), 15) // the first two differ by one letter each
	expect(t, h, done{user: "a", name: "nothing", gpus: 1}.job(), 1070.0/4)
	h = history(func(c *predict.Rolling) { c.Decay, c.Cutoff = 1, 1 }, past...)
	expect(t, h, done{user: "a", name: "bert-large-ab", gpus: 1}.job(), 1070.0/4)
}

// TestForgetting: only the last jobs of a user count, and none that was submitted
// too long ago.
func TestForgetting(t *testing.T) {
	h := history(func(c *predict.Rolling) { c.Records, c.Decay = 2, 1 },
		done{user: "a", name: "x", gpus: 1, ran: 900}, done{user: "a", name: "y", gpus: 1, ran: 10}, done{user: "a", name: "z", gpus: 1, ran: 30})
	expect(t, h, done{user: "a", gpus: 1}.job(), 20)
	expect(t, h, done{user: "a", name: "x", gpus: 1}.job(), 20) // its record is gone, and its name with it
	h = history(func(c *predict.Rolling) { c.Window = 10 * day },
		done{user: "a", name: "x", gpus: 1, ran: 900}, done{user: "a", name: "x", gpus: 1, ran: 50, submit: 15 * day})
	expect(t, h, done{user: "a", name: "x", gpus: 1, submit: 20 * day}.job(), 50)
	expect(t, h, done{user: "a", name: "x", gpus: 1, submit: 90 * day}.job(), 475) // as of a new user
}

// TestTenantForUser: where no users are told, tenants stand for them; a user of
// the same name is somebody else. Without both, everybody is one.
func TestTenantForUser(t *testing.T) {
	h := predict.NewHistory(predict.DefaultRolling())
	with := func(user, tenant string) *job.Job {
		j := done{user: user, gpus: 1}.job()
		j.Tenant = tenant
		return j
	}
	h.Observe(with("", "lab"), 100*time.Second)
	h.Observe(with("lab", ""), 300*time.Second)
	h.Observe(with("", ""), 800*time.Second)
	expect(t, h, with("", "lab"), 100)
	expect(t, h, with("lab", "lab"), 300)
	expect(t, h, with("", ""), 400)
}

func TestName(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "train": "train", "train_2020-09-01.17": "train", "v2-resnet50-run0042": "v-resnet-run", "42": "", "A/b c": "A-b-c", "模型12": "模型",
	} {
		if got := predict.Name(&job.Job{Name: in}); got != want {
			t.Errorf("name of %q is %q, want %q", in, got, want)
		}
	}
	if got := predict.Name(&job.Job{Hints: &job.Hints{Group: "9f3"}}); got != "9f3" {
		t.Errorf("name of a recurring job is %q", got)
	}
}

// TestSimilarity checks the edit distance against its definition by recursion.
func TestSimilarity(t *testing.T) {
	var slow func(a, b string) int
	slow = func(a, b string) int {
		if a == "" || b == "" {
			return len(a) + len(b)
		}
		change := 1
		if a[0] == b[0] {
			change = 0
		}
		return min(slow(a[1:], b[1:])+change, slow(a[1:], b)+1, slow(a, b[1:])+1)
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[ab]{0,6}`)
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		want := 1.0
		if n := max(len(a), len(b)); n > 0 {
			want = 1 - float64(slow(a, b))/float64(n)
		}
		if got := predict.Distance(a, b); got != slow(a, b) {
			t.Fatalf("%q to %q: %v, want %v", a, b, got, slow(a, b))
		}
		if got := predict.Similarity(a, b); got != want {
			t.Fatalf("%q and %q: %v, want %v", a, b, got, want)
		}
	})
}

// TestHistoryAgainstDefinition compares History with its definition, written
// plainly over the whole past.
func TestHistoryAgainstDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := predict.Rolling{
			Cutoff: rapid.SampledFrom([]float64{0, 0.6, 1}).Draw(t, "cutoff"), Matches: rapid.IntRange(1, 3).Draw(t, "matches"),
			Decay: rapid.SampledFrom([]float64{0.3, 0.7, 1}).Draw(t, "decay"), Window: rapid.SampledFrom([]time.Duration{3 * day, 100 * day}).Draw(t, "window"),
			Records: rapid.IntRange(1, 6).Draw(t, "records"),
		}
		h := predict.NewHistory(cfg)
		var past []done
		draw := func(i int) done {
			return done{
				user: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "user"), name: rapid.SampledFrom([]string{"", "ab", "abc", "abd", "xyz"}).Draw(t, "name"),
				gpus: rapid.IntRange(1, 2).Draw(t, "gpus"), ran: float64(rapid.IntRange(1, 100).Draw(t, "ran")), submit: time.Duration(i) * day,
			}
		}
		for i := range rapid.IntRange(1, 25).Draw(t, "n") {
			d := draw(i)
			if i > 0 {
				got, ok := h.Estimate(d.job())
				if want := define(cfg, past, d); !ok || math.Abs(got.Seconds()-want) > 1e-6 {
					t.Fatalf("after %v, %v: %v, want %v", past, d, got.Seconds(), want)
				}
			}
			past = append(past, d)
			h.Observe(d.job(), time.Duration(d.ran*1e9))
		}
	})
}

func define(cfg predict.Rolling, past []done, d done) float64 {
	mean := func(of []done) float64 {
		sum := 0.0
		for _, p := range of {
			sum += p.ran
		}
		return sum / float64(len(of))
	}
	only := func(of []done, keep func(done) bool) (out []done) {
		for _, p := range of {
			if keep(p) {
				out = append(out, p)
			}
		}
		return out
	}
	equal := func(p done) bool { return p.gpus == d.gpus }
	own := only(past, func(p done) bool { return d.user != "" && p.user == d.user })
	own = own[max(0, len(own)-cfg.Records):]
	var names []string // the last used one first
	for k := len(own) - 1; k >= 0; k-- {
		if n := own[k].name; n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	recent := only(own, func(p done) bool { return p.submit >= d.submit-cfg.Window })
	if similar := pick(cfg, names, d.name); len(similar) > 0 {
		sum, weights, w := 0.0, 0.0, 1.0
		for k := len(recent) - 1; k >= 0; k-- {
			if slices.Contains(similar, recent[k].name) {
				sum, weights, w = sum+w*recent[k].ran, weights+w, w*cfg.Decay
			}
		}
		if weights > 0 {
			return sum / weights
		}
	}
	for _, of := range [][]done{only(recent, equal), recent, only(past, equal), past} {
		if len(of) > 0 {
			return mean(of)
		}
	}
	return -1
}

func pick(cfg predict.Rolling, names []string, name string) []string {
	switch {
	case name == "":
		return nil
	case slices.Contains(names, name):
		return []string{name}
	}
	var similar []string
	for _, n := range names {
		if predict.Similarity(n, name) >= cfg.Cutoff {
			similar = append(similar, n)
		}
	}
	slices.SortStableFunc(similar, func(a, b string) int {
		switch x, y := predict.Similarity(a, name), predict.Similarity(b, name); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return similar[:min(len(similar), cfg.Matches)]
}

// hour believes that every job runs for an hour.
type hour struct{ predict.None }

func (hour) Estimate(*job.Job) (time.Duration, bool) { return time.Hour, true }

func keyed(key string) *job.Job { return &job.Job{Key: key} }

// TestNoisySame: the error of a job depends on seed and key alone.
func TestNoisySame(t *testing.T) {
	a := predict.Noisy{Of: hour{}, Seed: 1, Factor: predict.LogNormal(0.5)}
	first := map[string]time.Duration{}
	for i := range 200 {
		first[fmt.Sprint(i)], _ = a.Estimate(keyed(fmt.Sprint(i)))
	}
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(200) {
		if d, ok := a.Estimate(keyed(fmt.Sprint(i))); !ok || d != first[fmt.Sprint(i)] {
			t.Fatalf("job %d: %v, before %v", i, d, first[fmt.Sprint(i)])
		}
	}
	other := a
	other.Seed = 2
	same := 0
	for key, d := range first {
		if e, _ := other.Estimate(keyed(key)); e == d {
			same++
		}
	}
	if same > 0 {
		t.Errorf("%d of 200 errors are equal under another seed", same)
	}
	if _, ok := (predict.Noisy{Of: predict.None{}, Factor: predict.LogNormal(1)}).Estimate(keyed("1")); ok {
		t.Error("an estimate from nothing")
	}
}

// TestLogNormal: the size is what it is said to be: half of the errors lie below
// 1, and 68 % within a factor 1 + size.
func TestLogNormal(t *testing.T) {
	for _, size := range []float64{0, 0.1, 0.5, 3} {
		n := predict.Noisy{Of: hour{}, Seed: 7, Factor: predict.LogNormal(size)}
		below, within := 0, 0
		const jobs = 20_000
		for i := range jobs {
			f := n.Error(fmt.Sprint(i))
			if f < 1 {
				below++
			}
			if f <= 1+size && f >= 1/(1+size) {
				within++
			}
		}
		if size == 0 {
			if d, _ := n.Estimate(keyed("x")); within != jobs || d != time.Hour {
				t.Errorf("no noise changes %d of %d estimates", jobs-within, jobs)
			}
			continue
		}
		// Three standard deviations of a share of 20,000 are 0.011.
		if b, w := float64(below)/jobs, float64(within)/jobs; math.Abs(b-0.5) > 0.011 || math.Abs(w-0.6827) > 0.011 {
			t.Errorf("size %v: %.3f below, %.3f within", size, b, w)
		}
	}
}

// TestHelios: the shares of errors by size that the spec gives in section 2, and
// no estimate below 0.
func TestHelios(t *testing.T) {
	n := predict.Noisy{Of: hour{}, Seed: 7, Factor: predict.Helios}
	const jobs = 20_000
	bounds, shares := []float64{0.1, 0.5, 1, 10, 100}, []float64{0.1, 0.5, 0.7, 0.9, 1}
	count := make([]float64, len(bounds))
	long := 0.0
	for i := range jobs {
		f := n.Error(fmt.Sprint(i))
		for k, b := range bounds {
			if math.Abs(f-1) <= b {
				count[k]++
			}
		}
		if f > 1 {
			long++
		}
		if d, _ := n.Estimate(keyed(fmt.Sprint(i))); d < 0 {
			t.Fatalf("an estimate of %v", d)
		}
	}
	for k, want := range shares {
		if got := count[k] / jobs; math.Abs(got-want) > 0.011 {
			t.Errorf("%.3f of the errors are within %v, want %v", got, bounds[k], want)
		}
	}
	if got := long / jobs; math.Abs(got-0.5) > 0.011 {
		t.Errorf("%.3f of the estimates are too long", got)
	}
}

func TestRollingCheck(t *testing.T) {
	for _, change := range []func(*predict.Rolling){
		func(c *predict.Rolling) { c.Cutoff = math.NaN() }, func(c *predict.Rolling) { c.Decay = 0 },
		func(c *predict.Rolling) { c.Matches = 0 }, func(c *predict.Rolling) { c.Records = 0 },
	} {
		cfg := predict.DefaultRolling()
		if err := cfg.Check(); err != nil {
			t.Fatal(err)
		}
		change(&cfg)
		if cfg.Check() == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}

func BenchmarkHistory(b *testing.B) {
	h := predict.NewHistory(predict.DefaultRolling())
	var jobs []*job.Job
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 4096 {
		d := done{user: fmt.Sprint("u", r.IntN(50)), name: fmt.Sprintf("train-%c%c-%d", 'a'+r.IntN(26), 'a'+r.IntN(26), i), gpus: 1 << r.IntN(4), submit: time.Duration(i) * time.Minute}
		jobs = append(jobs, d.job())
		h.Observe(jobs[i], time.Duration(r.IntN(10_000))*time.Second)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		j := jobs[i%len(jobs)]
		h.Estimate(j)
		h.Observe(j, time.Hour)
		i++
	}
}
