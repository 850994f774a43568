package gen_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// Clients send at their rates, evenly, at random, or on and off, with tokens from their ranges; equal seeds
// give equal requests, and one client does not change what another sends.
func TestRequests(t *testing.T) {
	parse := func(text string) gen.Sender {
		s, err := gen.ParseSender(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	of := func(all []trace.Request, client string) (own []trace.Request) {
		for _, q := range all {
			if q.Client == client {
				own = append(own, q)
			}
		}
		return own
	}
	senders := []gen.Sender{parse("even:rate=60"), parse("random:rate=600,arrive=poisson,input=10-20,output=5-500"), parse("switch:rate=60,on=1m,off=1m,from=30s")}
	all, err := gen.Requests(senders, 10*time.Minute, 7)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := gen.Requests(senders, 10*time.Minute, 7)
	fewer, _ := gen.Requests(senders[:2], 10*time.Minute, 7)
	if !slices.Equal(all, again) || !slices.Equal(of(all, "random"), of(fewer, "random")) {
		t.Error("equal seeds give other requests")
	}
	even, random, switched := of(all, "even"), of(all, "random"), of(all, "switch")
	if len(even) != 600 || even[599].At != 599*time.Second {
		t.Errorf("%d requests evenly", len(even))
	}
	if n := float64(len(random)); math.Abs(n-6000) > 4*math.Sqrt(6000) {
		t.Errorf("%v requests at random, want 6000", n)
	}
	sum := 0.0
	for _, q := range random {
		sum += float64(q.Output)
		if q.Input < 10 || q.Input > 20 || q.Output < 5 || q.Output > 500 {
			t.Fatalf("%+v", q)
		}
	}
	if mean := sum / float64(len(random)); math.Abs(mean-252.5) > 4*143/math.Sqrt(6000) {
		t.Errorf("mean output %v, want 252.5", mean)
	}
	if len(switched) != 300 || switched[59].At != 89*time.Second || switched[60].At != 150*time.Second {
		t.Errorf("%d requests on and off: %v", len(switched), switched[59:61])
	}
}

// What cannot be is told.
func TestWrongSenders(t *testing.T) {
	for _, text := range []string{"", "a", ":rate=1", "a:rate=0", "a:rate=x", "a:input=0", "a:input=9-3", "a:arrive=late", "a:on=1m", "a:speed=3", "a:from=-1s", "a:output=5-"} {
		if s, err := gen.ParseSender(text); err == nil {
			t.Errorf("%q is taken: %+v", text, s)
		}
	}
	s, err := gen.ParseSender("a:rate=1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gen.Requests([]gen.Sender{s, s}, time.Minute, 0); err == nil {
		t.Error("one client twice")
	}
	if _, err := gen.Requests([]gen.Sender{s}, 1e6*time.Hour, 0); err == nil {
		t.Error("more requests than can be made")
	}
}
