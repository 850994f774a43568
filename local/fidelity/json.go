package fidelity

import "time"

// ResultJSON is a Result as other programs read it: times in seconds.
type ResultJSON struct {
	Policy      string           `json:"policy"`
	Scaled      string           `json:"scaled"`
	Live        FiguresJSON      `json:"live"`
	Sim         FiguresJSON      `json:"sim"`
	Off         float64          `json:"mean_jct_off"` // live over simulated, less 1
	OffHeldS    float64          `json:"off_held_s"`
	OffWaitS    float64          `json:"off_wait_s"`
	LargestJob  string           `json:"largest_job,omitempty"`
	LargestS    float64          `json:"largest_s"`
	Tau         float64          `json:"kendall_tau"`
	FirstEnd    *OtherJSON       `json:"first_end_that_differs,omitempty"`
	Starts      MatchedJSON      `json:"starts"`
	Stops       MatchedJSON      `json:"stops"`
	InOrder     int              `json:"in_order"`
	Decisions   SpanJSON         `json:"decisions_apart"`
	Costs       CostsJSON        `json:"costs"`
	Odd         []string         `json:"odd,omitempty"`
	Differences []DifferenceJSON `json:"differences"`
}

// FiguresJSON are Figures.
type FiguresJSON struct {
	Jobs      int     `json:"jobs"`
	MeanJCTS  float64 `json:"mean_jct_s"`
	MeanRunS  float64 `json:"mean_run_s"`
	MakespanS float64 `json:"makespan_s"`
	Starts    int     `json:"starts"`
	Stops     int     `json:"stops"`
}

// OtherJSON is Other.
type OtherJSON struct {
	Place int     `json:"place"`
	Live  string  `json:"live"`
	Sim   string  `json:"sim"`
	ByS   float64 `json:"apart_s"`
}

// MatchedJSON is Matched.
type MatchedJSON struct {
	Both    int `json:"matched"`
	Missing int `json:"missing"`
	Extra   int `json:"extra"`
}

// SpanJSON is a Span.
type SpanJSON struct {
	N       int     `json:"n"`
	MeanS   float64 `json:"mean_s"`
	LeastS  float64 `json:"least_s"`
	MedianS float64 `json:"median_s"`
	P95S    float64 `json:"p95_s"`
	MostS   float64 `json:"most_s"`
}

// CostsJSON are Costs.
type CostsJSON struct {
	Lag        SpanJSON `json:"submission"`
	Start      SpanJSON `json:"start"`
	Restore    SpanJSON `json:"restore"`
	Checkpoint SpanJSON `json:"checkpoint"`
	Leave      SpanJSON `json:"leave"`
	Launch     SpanJSON `json:"launch"`
}

// DifferenceJSON is a Difference; a time is -1 where it never came.
type DifferenceJSON struct {
	What  string  `json:"what"`
	Sort  string  `json:"sort"`
	LiveS float64 `json:"live_s"`
	SimS  float64 `json:"sim_s"`
	Cause string  `json:"cause"`
}

// JSON is the result as other programs read it.
func (r *Result) JSON() ResultJSON {
	out := ResultJSON{
		Policy: r.Policy, Scaled: r.Scaled, Live: r.Live.json(), Sim: r.Sim.json(), Off: r.Off,
		OffHeldS: r.OffHeld.Seconds(), OffWaitS: r.OffWait.Seconds(),
		LargestJob: r.Largest.Job, LargestS: (r.Largest.Live - r.Largest.Sim).Seconds(), Tau: r.Tau,
		Starts: MatchedJSON(r.Starts), Stops: MatchedJSON(r.Stops), InOrder: r.InOrder, Decisions: r.Decisions.json(),
		Costs: CostsJSON{
			Lag: r.Costs.Lag.json(), Start: r.Costs.Start.json(), Restore: r.Costs.Restore.json(),
			Checkpoint: r.Costs.Checkpoint.json(), Leave: r.Costs.Leave.json(), Launch: r.Costs.Launch.json(),
		},
		Odd: r.Odd, Differences: []DifferenceJSON{},
	}
	if o := r.FirstEnd; o != nil {
		out.FirstEnd = &OtherJSON{o.Place, o.Live, o.Sim, o.By.Seconds()}
	}
	for _, d := range r.Difference {
		out.Differences = append(out.Differences, DifferenceJSON{d.What, d.Sort.String(), known(d.Live), known(d.Sim), d.Cause})
	}
	return out
}

func known(at time.Duration) float64 {
	if at < 0 {
		return -1
	}
	return at.Seconds()
}

func (f Figures) json() FiguresJSON {
	return FiguresJSON{f.Jobs, f.MeanJCT.Seconds(), f.MeanRun.Seconds(), f.Makespan.Seconds(), f.Starts, f.Stops}
}

func (s Span) json() SpanJSON {
	return SpanJSON{s.N, s.Mean.Seconds(), s.Least.Seconds(), s.Median.Seconds(), s.P95.Seconds(), s.Most.Seconds()}
}
