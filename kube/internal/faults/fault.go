package faults

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Kind is what goes wrong with a request.
type Kind string

// The faults.
const (
	None     Kind = ""
	Conflict Kind = "conflict" // 409, nothing is written
	TooMany  Kind = "too-many" // 429 with Retry-After, nothing is written
	Internal Kind = "internal" // 500, nothing is written
	Dropped  Kind = "dropped"  // the stream is cut, nothing is written
	Lost     Kind = "lost"     // it is done, the stream is cut before the answer
	Cut      Kind = "cut"      // the answer is cut off after some time; of watches
	Stall    Kind = "stall"    // nothing more comes after some time, until it is cut; of watches
	Gone     Kind = "gone"     // 410: what the watch wants to go on from is not kept any more
)

// Fault is what goes wrong with one request, and when.
type Fault struct {
	Kind Kind
	// Delay is how long the request waits before anything else happens.
	Delay time.Duration
	// After is how long a watch goes well before it is cut or stalls, and Hold how long
	// it then stalls.
	After, Hold time.Duration
}

// Request is what a fault is chosen by.
type Request struct {
	Verb string // get (of lists too), watch, create, update, patch, delete
	Path string // without the query
	// N is the number of this request among those of its verb and path, from 1. It does
	// not depend on what goes on beside it.
	N int
	// Writes is the number of this request among all writes through the proxy, from 1;
	// 0 of one that only reads.
	Writes int
}

// Write tells whether a request changes something.
func (r Request) Write() bool { return r.Writes > 0 }

// String is the request in one line.
func (r Request) String() string { return fmt.Sprintf("%s %s (%d)", r.Verb, r.Path, r.N) }

// Choice chooses what goes wrong with a request. It is called by several goroutines.
type Choice func(Request) Fault

// Well is the choice by which nothing goes wrong.
func Well(Request) Fault { return Fault{} }

// Rates are probabilities of faults. Those of one kind of request add up to 1 at most.
type Rates struct {
	// Of writes.
	Conflict, Lost float64
	// Of all requests.
	TooMany, Internal, Dropped float64
	// Of watches.
	Cut, Stall, Gone float64
	// Delay is the probability that a request waits, up to Longest, beside other faults.
	Delay float64
	// Longest is the longest that a request waits and a watch stalls; 0 stands for 2 s.
	Longest time.Duration
	// Steady is the longest that a watch goes well before it is cut or stalls; 0 stands
	// for 2 s.
	Steady time.Duration
}

// Random draws faults. The fault of a request follows from the seed and from the verb,
// the path and the number of the request. So a test that makes the same requests meets
// the same faults, in whatever order they come.
func Random(seed uint64, rates Rates) Choice {
	if rates.Longest == 0 {
		rates.Longest = 2 * time.Second
	}
	if rates.Steady == 0 {
		rates.Steady = 2 * time.Second
	}
	return func(r Request) Fault {
		hash := fnv.New64a()
		fmt.Fprintf(hash, "%s %s %d", r.Verb, r.Path, r.N)
		draw := rand.New(rand.NewPCG(seed, hash.Sum64()))
		f := Fault{Kind: rates.kind(r, draw.Float64())}
		if f.Kind == Cut || f.Kind == Stall {
			f.After = time.Duration(draw.Float64() * float64(rates.Steady))
		}
		if f.Kind == Stall {
			f.Hold = time.Duration(draw.Float64() * float64(rates.Longest))
		}
		if draw.Float64() < rates.Delay {
			f.Delay = time.Duration(draw.Float64() * float64(rates.Longest))
		}
		return f
	}
}

// kind is the fault at a place of the interval from 0 to 1.
func (r *Rates) kind(q Request, u float64) Kind {
	type part struct {
		kind Kind
		rate float64
	}
	parts := []part{{TooMany, r.TooMany}, {Internal, r.Internal}, {Dropped, r.Dropped}}
	switch {
	case q.Verb == "watch":
		parts = append(parts, part{Cut, r.Cut}, part{Stall, r.Stall}, part{Gone, r.Gone})
	case q.Verb == "create":
		parts = append(parts, part{Lost, r.Lost}) // a conflict of what is new makes no sense
		if isBinding(q.Path) {
			parts = append(parts, part{Conflict, r.Conflict})
		}
	case q.Write():
		parts = append(parts, part{Lost, r.Lost}, part{Conflict, r.Conflict})
	}
	for _, p := range parts {
		if u -= p.rate; u < 0 {
			return p.kind
		}
	}
	return None
}

// Injection is a fault that a request has met.
type Injection struct {
	Request Request
	Fault   Fault
}

// String is the injection in one line.
func (i Injection) String() string {
	text := fmt.Sprintf("%s: %s", i.Request, i.Fault.Kind)
	if i.Fault.Kind == None {
		text = fmt.Sprintf("%s: delay", i.Request)
	}
	for _, d := range []struct {
		name string
		time time.Duration
	}{{"delay", i.Fault.Delay}, {"after", i.Fault.After}, {"hold", i.Fault.Hold}} {
		if d.time > 0 {
			text += fmt.Sprintf(" %s=%v", d.name, d.time)
		}
	}
	return text
}

// Replay has the same requests meet the same faults again, and no others: the schedule of
// another run, or a part of it.
func Replay(schedule []Injection) Choice {
	type key struct {
		verb, path string
		n          int
	}
	faults := map[key]Fault{}
	for _, i := range schedule {
		faults[key{i.Request.Verb, i.Request.Path, i.Request.N}] = i.Fault
	}
	return func(r Request) Fault { return faults[key{r.Verb, r.Path, r.N}] }
}
