package serve_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/policy/tokens"
	"github.com/norn-scheduler/norn/sim/serve"
	"github.com/norn-scheduler/norn/trace"
)

func server(t *testing.T, name string) serve.Server {
	t.Helper()
	s, err := serve.FindServer(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run serves a trace under a policy with its defaults, or as changed.
func run(t interface{ Fatal(...any) }, s serve.Server, all []trace.Request, c tokens.Config, w serve.Watch) *serve.Result {
	clients := serve.Clients(all)
	p, err := c.Policy(tokens.Setup{Clients: clients, Pool: s.Pool})
	if err != nil {
		t.Fatal(err)
	}
	r, err := serve.Run(context.Background(), &s, all, clients, p, w)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// evenly is requests of one client at a constant rate.
func evenly(client string, perMinute float64, input, output int, long time.Duration) (all []trace.Request) {
	for i := 0; ; i++ {
		at := time.Duration(float64(i) * float64(time.Minute) / perMinute)
		if at >= long {
			return all
		}
		all = append(all, trace.Request{Client: client, At: at, Input: input, Output: output})
	}
}

// The paper's two clients who send more than the server can serve, 90 and 180 requests a minute: under VTC
// their service differs by less than 2U however long that lasts, and under FCFS by more and more. The throughput is
// the same. Specification, sections 4 and 5.6.
func TestOverload(t *testing.T) {
	s := server(t, "a10g-7b")
	gaps := map[string][]float64{}
	for _, minutes := range []time.Duration{6, 12} {
		var rates []float64
		for _, e := range tokens.Table() {
			if e.Name == "rpm" {
				continue
			}
			all := merge(evenly("a", 90, 256, 256, minutes*time.Minute), evenly("b", 180, 256, 256, minutes*time.Minute))
			r := run(t, s, all, e.New(), serve.Watch{})
			gaps[e.Name] = append(gaps[e.Name], r.Gap)
			rates = append(rates, r.Throughput)
			t.Logf("%s, %d minutes: gap %.0f, %.2f requests/s", e.Name, minutes, r.Gap, float64(len(all))/r.Ended.Seconds())
		}
		for _, x := range rates {
			if math.Abs(x/rates[0]-1) > 0.03 {
				t.Errorf("tokens/s differ by policy: %v", rates)
			}
		}
	}
	for _, name := range []string{"vtc", "lcf", "drr", "rr"} {
		if g := gaps[name]; g[0] > 40_000 || g[1] > 40_000 {
			t.Errorf("%s: service differs by %v units, 2U is 40,000", name, g)
		}
	}
	if g := gaps["fcfs"]; g[0] < 100_000 || g[1] < 1.9*g[0] {
		t.Errorf("fcfs: service differs by %v units", g)
	}
}

// merge puts requests of several clients in the order of time.
func merge(lists ...[]trace.Request) (all []trace.Request) {
	at := make([]int, len(lists))
	for {
		best := -1
		for i, l := range lists {
			if at[i] < len(l) && (best < 0 || l[at[i]].At < lists[best][at[best]].At) {
				best = i
			}
		}
		if best < 0 {
			return all
		}
		all = append(all, lists[best][at[best]])
		at[best]++
	}
}

// drawn is a random trace.
func drawn(t *rapid.T) (all []trace.Request) {
	at := time.Duration(0)
	for range rapid.IntRange(1, 60).Draw(t, "requests") {
		at += time.Duration(rapid.IntRange(0, 3000).Draw(t, "gap")) * time.Millisecond
		all = append(all, trace.Request{
			Client: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "client"), At: at,
			Input: rapid.IntRange(1, 60).Draw(t, "input"), Output: rapid.IntRange(1, 40).Draw(t, "output"),
		})
	}
	return all
}

// Under every policy each request is served once, or refused, in the order admitted, first token, last token; the same run comes out
// the same, and nobody holds more of the pool than there is.
func TestServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := serve.Servers()[0]
		s.Pool = rapid.IntRange(100, 400).Draw(t, "pool")
		s.Every = rapid.IntRange(1, 3).Draw(t, "every")
		all := drawn(t)
		e := rapid.SampledFrom(tokens.Table()).Draw(t, "policy")
		admitted := map[int]int{}
		r := run(t, s, all, e.New(), serve.Watch{
			Admitted: func(_ time.Duration, q *tokens.Request) { admitted[q.ID]++ },
		})
		for i := range r.Served {
			q := &r.Served[i]
			switch {
			case q.Refused != (admitted[i] == 0) || admitted[i] > 1:
				t.Fatalf("request %d was admitted %d times, refused %v", i, admitted[i], q.Refused)
			case !q.Refused && (q.Started < q.At || q.First <= q.Started || q.Ended < q.First):
				t.Fatalf("request %d: %+v", i, q)
			}
		}
		for i := range r.Served { // whoever is in the batch as a request begins
			held := 0
			for j := range r.Served {
				if a, b := &r.Served[i], &r.Served[j]; !a.Refused && !b.Refused && b.Started <= a.Started && b.Ended > a.Started {
					held += b.Input + b.Output
				}
			}
			if held > s.Pool {
				t.Fatalf("%d tokens are held when request %d begins, of %d", held, i, s.Pool)
			}
		}
		if r.Refused > 0 && e.Name != "rpm" {
			t.Fatalf("%s refuses requests", e.Name)
		}
		again := run(t, s, all, e.New(), serve.Watch{})
		for i := range r.Served {
			if a, b := r.Served[i], again.Served[i]; a.Started != b.Started || a.Ended != b.Ended {
				t.Fatalf("the same run differs in request %d", i)
			}
		}
	})
}

// Two clients who always wait are within 2U of each other, at any moment.
func TestBacklogged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := serve.Servers()[0]
		s.Pool = rapid.IntRange(100, 400).Draw(t, "pool")
		var all []trace.Request
		for range 200 {
			all = append(all, trace.Request{Client: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "client"), Input: rapid.IntRange(1, 60).Draw(t, "input"), Output: rapid.IntRange(1, 40).Draw(t, "output")})
		}
		left := map[string]int{}
		for _, q := range all {
			left[q.Client]++
		}
		names := serve.Clients(all)
		if len(names) < 2 {
			return
		}
		service := [2]float64{}
		var batch []*tokens.Request
		run(t, s, all, tokens.NewVTC(), serve.Watch{
			Admitted: func(_ time.Duration, q *tokens.Request) {
				left[names[q.Client]]--
				service[q.Client] += float64(q.Input)
				batch = append(batch, q)
			},
			Stepped: func(now time.Duration, _ tokens.Policy) {
				stay := batch[:0]
				for _, q := range batch {
					service[q.Client] += 2
					if q.Produced() < q.Output {
						stay = append(stay, q)
					}
				}
				batch = stay
				if u := 2 * float64(s.Pool); left["a"] > 0 && left["b"] > 0 && math.Abs(service[0]-service[1]) > 2*u {
					t.Fatalf("at %v service differs by %v, 2U is %v", now, math.Abs(service[0]-service[1]), 2*u)
				}
			},
		})
	})
}

// What a server cannot serve is told, with the request and the client.
func TestWrong(t *testing.T) {
	s := server(t, "a10g-7b")
	for _, all := range [][]trace.Request{
		{{Client: "a", Input: 9_000, Output: 2_000}}, {{Client: "a", Input: 0, Output: 1}}, {{Client: "x", Input: 1, Output: 1}},
		{{Client: "a", At: time.Second, Input: 1, Output: 1}, {Client: "a", Input: 1, Output: 1}},
	} {
		p, err := new(tokens.FCFS).Policy(tokens.Setup{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := serve.Run(context.Background(), &s, all, []string{"a"}, p, serve.Watch{}); err == nil {
			t.Errorf("%v is served", all)
		}
	}
	if _, err := serve.FindServer("abacus"); err == nil {
		t.Error("there is a server abacus")
	}
}

// The real trace of the paper: service differs least under VTC, and most under FCFS; a limit of 5 requests in a minute refuses much
// of what the server could have served.
func TestRealTrace(t *testing.T) {
	path := shared.Path(t, "data/vtc/real_trace.csv")
	file, err := os.Open(filepath.Clean(path))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all, err := trace.ReadRequests(file, path, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(all.All) != 1500 || len(serve.Clients(all.All)) != 27 {
		t.Fatalf("%d requests of %d clients", len(all.All), len(serve.Clients(all.All)))
	}
	s := server(t, "a10g-7b")
	results := map[string]*serve.Result{}
	for _, e := range tokens.Table() {
		r := run(t, s, all.All, e.New(), serve.Watch{})
		results[e.Name] = r
		t.Logf("%-5s difference most %.0f mean %.0f, %.0f tokens/s, response mean %.1f s, refused %d", e.Name, r.Difference.Most, r.Difference.Mean, r.Throughput, r.Response.Mean, r.Refused)
	}
	if v, l, f := results["vtc"].Difference, results["lcf"].Difference, results["fcfs"].Difference; v.Most >= l.Most || l.Most >= f.Most || v.Mean >= l.Mean || l.Mean >= f.Mean {
		t.Errorf("differences of vtc %v, lcf %v, fcfs %v are not in the published order", v, l, f)
	}
	if r := results["rpm"]; r.Throughput > 0.7*results["vtc"].Throughput || r.Refused == 0 {
		t.Errorf("rpm: %v tokens/s, %d refused", r.Throughput, r.Refused)
	}
}
