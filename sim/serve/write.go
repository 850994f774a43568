package serve

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"
)

// Summary is a result as programs read it.
type Summary struct {
	Policy     string       `json:"policy"`
	Server     string       `json:"server"`
	Requests   int          `json:"requests"`
	Refused    int          `json:"refused"`
	Ended      float64      `json:"ended_s"`
	Throughput float64      `json:"tokens_per_s"`
	Output     float64      `json:"output_tokens_per_s"`
	Response   SpreadJSON   `json:"response_s"`
	Difference SpreadJSON   `json:"difference_units_per_s"`
	Gap        float64      `json:"gap_units"`
	GapAtLast  float64      `json:"gap_at_last_arrival_units"`
	Clients    []ClientJSON `json:"clients"`
}

// SpreadJSON is a Spread.
type SpreadJSON struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Most float64 `json:"max"`
}

// ClientJSON is a Client.
type ClientJSON struct {
	Name     string     `json:"client"`
	Requests int        `json:"requests"`
	Refused  int        `json:"refused"`
	Input    int        `json:"input_tokens"`
	Output   int        `json:"output_tokens"`
	Service  float64    `json:"service_units"`
	Response SpreadJSON `json:"response_s"`
}

// Summary is the result under the name of a policy.
func (r *Result) Summary(policy string) *Summary {
	s := &Summary{
		Policy: policy, Server: r.Server, Requests: len(r.Served), Refused: r.Refused, Ended: r.Ended.Seconds(), Throughput: r.Throughput, Output: r.Output,
		Response: SpreadJSON(r.Response), Difference: SpreadJSON(r.Difference), Gap: r.Gap, GapAtLast: r.GapAtLast, Clients: []ClientJSON{},
	}
	for _, c := range r.ByClient {
		s.Clients = append(s.Clients, ClientJSON{c.Name, c.Requests, c.Refused, c.Input, c.Output, c.Service, SpreadJSON(c.Response)})
	}
	return s
}

// WriteRequests writes what became of each request, as CSV. Moments are seconds since the trace begins; those of a refused
// request are empty.
func (r *Result) WriteRequests(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"request", "client", "arrival", "input", "output", "started", "first_token", "ended", "state"}) // Flush tells of errors
	for i := range r.Served {
		s := &r.Served[i]
		row := []string{strconv.Itoa(i), s.Client, text(s.At), strconv.Itoa(s.Input), strconv.Itoa(s.Output), "", "", "", "refused"}
		if !s.Refused {
			row = append(row[:5], text(s.Started), text(s.First), text(s.Ended), "served")
		}
		_ = out.Write(row)
	}
	out.Flush()
	return out.Error()
}

// WriteService writes the service of each client over time, as CSV: a row for each client and Bin in which it was given any.
func (r *Result) WriteService(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"from", "client", "service"})
	for c, curve := range r.Curve {
		for i, v := range curve {
			if v > 0 {
				_ = out.Write([]string{text(time.Duration(i) * Bin), r.Clients[c], strconv.FormatFloat(v, 'f', -1, 64)})
			}
		}
	}
	out.Flush()
	return out.Error()
}

func text(t time.Duration) string { return strconv.FormatFloat(t.Seconds(), 'f', -1, 64) }
