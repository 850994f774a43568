package reproduce

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/experiment"
)

// Row is what came of a claim. Ratios are the baseline's figure over the policy's, or
// the other way round where more is better. Where there is no baseline they are the
// figure itself.
type Row struct {
	ID     string `json:"id"`     // see Study.ID
	Form   string `json:"form"`   // quick or full
	System string `json:"system"` // as docs/policies calls it
	Claim  string `json:"claim"`  // what is compared
	Place  string `json:"place"`  // where it is published
	About  string `json:"about"`  // workload and cluster

	Published Published `json:"-"`         // written as published, published_to and at_least
	Ours      float64   `json:"ours"`      // geometric mean over the worlds
	Low       float64   `json:"low"`       // the interval: the smallest ratio
	High      float64   `json:"high"`      // and the largest
	Ratios    []float64 `json:"ratios"`    // of each world
	Figures   []float64 `json:"figures"`   // of the policy itself in each world; times in seconds
	Tolerance float64   `json:"tolerance"` // part of what is published
	Within    bool      `json:"within"`

	NoData   string   `json:"no_data,omitempty"` // a file that is missing: nothing was run
	Commands []string `json:"commands"`          // that make the runs, one for each world
	Seconds  float64  `json:"-"`                 // that all worlds of the study took

	smaller bool // a smaller figure is better; ratios are better when larger
}

// The forms, as rows name them.
const (
	Quick = "quick"
	Full  = "full"
)

// rows are the claims of a study before they are tried.
func (s *Study) rows(quick bool) []Row {
	form := Full
	if quick {
		form = Quick
	}
	out := make([]Row, len(s.Claims))
	for i := range s.Claims {
		c := &s.Claims[i]
		policies := []string{s.Of(c)}
		if c.Baseline != "" {
			policies = append(policies, c.Baseline)
		}
		row := Row{
			ID: s.ID(c), Form: form, System: s.System, Claim: s.text(c), Place: c.Place, About: s.About,
			Published: c.Published, Tolerance: c.Tolerance, smaller: c.Baseline == "" && !c.Metric.Higher,
		}
		for _, w := range s.Form(quick) {
			row.Commands = append(row.Commands, w.Shell(policies))
		}
		out[i] = row
	}
	return out
}

// judge fills in what came of a claim in each world.
func (r *Row) judge(c *Claim, policy string, tables []table) {
	policy, baseline := named(policy), named(c.Baseline)
	logs := 0.0
	for _, t := range tables {
		figure := t[policy][c.Metric.Key]
		ratio := figure
		if c.Baseline != "" {
			ratio = t[baseline][c.Metric.Key] / figure
			if c.Metric.Higher {
				ratio = 1 / ratio
			}
		}
		r.Figures, r.Ratios = append(r.Figures, digits(figure)), append(r.Ratios, ratio)
		logs += math.Log(ratio)
	}
	r.Ours = math.Exp(logs / float64(len(tables)))
	r.Low, r.High = r.Ratios[0], r.Ratios[0]
	for i, x := range r.Ratios {
		r.Low, r.High = min(r.Low, x), max(r.High, x)
		r.Ratios[i] = digits(x)
	}
	r.Within = within(c.Published, c.Tolerance, r.Ours, r.Low, r.High)
	r.Ours, r.Low, r.High = digits(r.Ours), digits(r.Low), digits(r.High)
}

// within tells whether the interval of a ratio meets what is published, give or take
// the tolerance. Where only a bound is published, the mean must be beyond it, since one
// lucky world of several would meet any bound. Where the policy is better in what is
// published, its mean must be better too, since a tolerance of 25 % would let a gain of
// 1.2 times be none. It is false for figures that are none.
func within(p Published, tolerance, mean, low, high float64) bool {
	switch {
	case math.IsInf(p.To, 1):
		return mean > p.From*(1-tolerance)
	case p.From > 1 && !(mean > 1):
		return false
	}
	return high >= p.From*(1-tolerance) && low <= p.To*(1+tolerance)
}

// named is how outcomes name a policy that a user wrote in some way.
func named(policy string) string {
	if policy == "" {
		return ""
	}
	c, err := experiment.ParseChoice(policy)
	if err != nil {
		return policy // which was refused before anything was run
	}
	return c.String()
}

func join(policies []string) string { return strings.Join(policies, ",") }

// digits rounds a figure to four digits that count. A figure that is no number becomes 0,
// which JSON can express.
func digits(x float64) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64) // which is a number
	return y
}

// rowJSON is a row as it is written: what is published is three keys.
type rowJSON struct {
	plainRow
	Published   float64  `json:"published"`
	PublishedTo *float64 `json:"published_to,omitempty"` // of a range
	AtLeast     bool     `json:"at_least,omitempty"`     // published is a bound
}

type plainRow Row

// MarshalJSON writes a row.
func (r Row) MarshalJSON() ([]byte, error) {
	j := rowJSON{plainRow: plainRow(r), Published: r.Published.From, AtLeast: math.IsInf(r.Published.To, 1)}
	if !j.AtLeast && r.Published.To != r.Published.From {
		j.PublishedTo = &r.Published.To
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads a row that was written by MarshalJSON.
func (r *Row) UnmarshalJSON(text []byte) error {
	var j rowJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	*r = Row(j.plainRow)
	r.Published = exactly(j.Published)
	switch {
	case j.AtLeast:
		r.Published = atLeast(j.Published)
	case j.PublishedTo != nil:
		r.Published.To = *j.PublishedTo
	}
	return nil
}
