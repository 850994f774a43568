package serve

import (
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/trace"
)

// Bin is the time between two points of the curves of service.
const Bin = 10 * time.Second

// window is how far before and after a moment its service counts, as in the paper.
const window = 30 * time.Second

// Result is what came of a run.
type Result struct {
	Server  string
	Clients []string
	Served  []Served // in the order of the trace

	// ByClient has a row for each client, in the order of Clients.
	ByClient []Client

	Refused    int
	Ended      time.Duration // the last token
	Throughput float64       // tokens of input and output/s, from the first arrival to the last token
	Output     float64       // tokens of output/s in that time
	Response   Spread        // from the arrival of a request to its first token
	Difference Spread        // see Differences; Mean and Most over time
	Gap        float64       // the largest difference of all service so far of two clients, while requests arrive
	GapAtLast  float64       // that at the last arrival

	Curve [][]float64 // by client: service in each Bin

	begins, last time.Duration // the first and the last arrival
	total        []float64     // by client: service so far
	asked        [][]float64   // by client: service asked for in each Bin
}

// Client is what one client was given.
type Client struct {
	Name     string
	Requests int
	Refused  int
	Input    int
	Output   int
	Service  float64 // units
	Response Spread
}

// Spread is a mean and its tail.
type Spread struct{ Mean, P50, P90, P99, Most float64 }

func spreadOf(v []float64) (s Spread) {
	if len(v) == 0 {
		return s
	}
	slices.Sort(v)
	for _, x := range v {
		s.Mean += x / float64(len(v))
	}
	at := func(q float64) float64 { return v[min(len(v)-1, int(math.Ceil(q*float64(len(v))))-1)] }
	s.P50, s.P90, s.P99, s.Most = at(0.5), at(0.9), at(0.99), v[len(v)-1]
	return s
}

func newResult(s *Server, requests []trace.Request, clients []string) *Result {
	r := &Result{Server: s.Name, Clients: clients, Served: make([]Served, len(requests)), Curve: make([][]float64, len(clients)), total: make([]float64, len(clients)), asked: make([][]float64, len(clients))}
	for i := range requests {
		r.Served[i].Request = &requests[i]
	}
	if len(requests) > 0 {
		r.begins, r.last = requests[0].At, requests[len(requests)-1].At
	}
	return r
}

// serve notes that a client was given tokens, each of so many units of service.
func (r *Result) serve(now time.Duration, client int, tokens, units float64) {
	r.total[client] += tokens * units
	add(&r.Curve[client], int(now/Bin), tokens*units)
}

func add(curve *[]float64, bin int, v float64) {
	for len(*curve) <= bin {
		*curve = append(*curve, 0)
	}
	(*curve)[bin] += v
}

// finish sums up.
func (r *Result) finish() {
	number := map[string]int{}
	r.ByClient = make([]Client, len(r.Clients))
	for i, name := range r.Clients {
		number[name] = i
		r.ByClient[i] = Client{Name: name, Service: r.total[i]}
	}
	waits := make([][]float64, len(r.Clients))
	var all []float64
	input, output := 0, 0
	for i := range r.Served {
		s := &r.Served[i]
		c := number[s.Client]
		row := &r.ByClient[c]
		row.Requests++
		add(&r.asked[c], int(s.At/Bin), float64(s.Input+2*s.Output))
		if s.Refused {
			row.Refused++
			r.Refused++
			continue
		}
		r.Ended = max(r.Ended, s.Ended)
		row.Input, row.Output = row.Input+s.Input, row.Output+s.Output
		input, output = input+s.Input, output+s.Output
		wait := (s.First - s.At).Seconds()
		waits[c], all = append(waits[c], wait), append(all, wait)
	}
	for i := range waits {
		r.ByClient[i].Response = spreadOf(waits[i])
	}
	r.Response = spreadOf(all)
	if took := (r.Ended - r.begins).Seconds(); took > 0 {
		r.Throughput, r.Output = float64(input+output)/took, float64(output)/took
	}
	r.Difference = spreadOf(r.Differences())
	r.gaps()
}

// Differences is the difference of service at each Bin while requests arrive, in units/s over the half minutes
// before and after. It is what each client lacks of the one that was given most, as far as it had asked for that,
// summed over clients.
func (r *Result) Differences() (out []float64) {
	bins := int(r.last/Bin) + 1
	half := int(window / Bin)
	rate := func(curve []float64, at int) (sum float64) {
		for i := max(0, at-half); i < min(len(curve), at+half); i++ {
			sum += curve[i]
		}
		return sum / (2 * window).Seconds()
	}
	for at := int(r.begins / Bin); at < bins; at++ {
		most, sum := 0.0, 0.0
		for c := range r.Curve {
			most = max(most, rate(r.Curve[c], at))
		}
		for c := range r.Curve {
			has := rate(r.Curve[c], at)
			sum += max(0, min(most, rate(r.asked[c], at))-has)
		}
		out = append(out, sum)
	}
	return out
}

// gaps finds how far apart the service of any two clients is, summed up from the beginning, while requests
// arrive.
func (r *Result) gaps() {
	sums := make([]float64, len(r.Curve))
	for at := int(r.begins / Bin); at < int((r.last+Bin-1)/Bin); at++ {
		least, most := math.Inf(1), math.Inf(-1)
		for c, curve := range r.Curve {
			if at < len(curve) {
				sums[c] += curve[at]
			}
			least, most = min(least, sums[c]), max(most, sums[c])
		}
		if len(sums) > 0 {
			r.GapAtLast = most - least
			r.Gap = max(r.Gap, r.GapAtLast)
		}
	}
}
