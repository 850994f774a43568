package report

import "github.com/norn-scheduler/norn/job"

// Tiered is how a run kept the promises of one tier (job.Tier). A job kept its promise if it had
// at least the GPU fraction that its tier is promised, from its submission to its end. Jobs that have
// not ended are counted as of when the run ended.
type Tiered struct {
	Tier    string  `json:"tier"`
	Promise float64 `json:"promised"` // GPU fraction, 0: none
	Jobs    int     `json:"jobs"`
	Kept    int     `json:"kept"`
	Share   float64 `json:"kept_share"`
	Mean    float64 `json:"fraction_mean"`
	Worst   float64 `json:"fraction_worst"`
}

// tiered counts GPU fractions, job by job.
type tiered [3]Tiered

// job counts one job as it stands at the given moment.
func (n *tiered) job(r *job.Record, fraction float64) {
	t := &n[r.Job.Tier]
	if t.Jobs == 0 || fraction < t.Worst {
		t.Worst = fraction
	}
	t.Jobs++
	t.Mean += fraction // the sum until the end
	if fraction >= r.Job.Tier.Promise() {
		t.Kept++
	}
}

// result is the figures by tier, from the highest; none where no job is promised anything.
func (n *tiered) result() (out []Tiered) {
	for i := len(n) - 1; i >= 0; i-- {
		t := n[i]
		if len(out) == 0 && job.Tier(i) == job.Basic || t.Jobs == 0 {
			continue
		}
		t.Tier, t.Promise = job.Tier(i).String(), job.Tier(i).Promise()
		t.Share, t.Mean = float64(t.Kept)/float64(t.Jobs), t.Mean/float64(t.Jobs)
		out = append(out, t)
	}
	return out
}
