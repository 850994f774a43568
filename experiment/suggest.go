package experiment

import (
	"context"
	"fmt"
	"strings"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/policy/need"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/state"
)

// Advice is what to try on a trace.
type Advice struct {
	First    *report.Result // fifo, beside which the others are to be seen
	Short    bool           // jobs wait for more than a hundredth of their completion times under fifo
	Policies []Suggestion   // three at most, the one that fits most closely first
}

// Suggestion is a policy that is worth a try on a trace.
type Suggestion struct {
	Policy string // with settings, as ParseChoice reads it
	Why    string // a clause: what of the trace speaks for it
}

// suggested is a policy with what speaks for it.
type suggested struct {
	policy string
	all    need.Set // things that the trace must have, every one
	why    string
}

// special are the policies that live on things which few traces have, those that need the
// most first.
func special() []suggested {
	return []suggested{
		{"muxflow", need.Of(need.Services), "online services use their GPUs little, and other jobs can run beside them"},
		{"ymir", need.Of(need.Backbones), "jobs tune the same foundation models, and can be merged"},
		{"sia", need.Of(need.Elastic, need.Reports, need.Types), "jobs may change their size, their batch and their GPU type, and report what these are worth"},
		{"pollux", need.Of(need.Elastic, need.Reports), "jobs may change their size and their batch, and report what these are worth"},
		{"afs", need.Of(need.Elastic, need.RunTimes), "jobs may change their size, and run times are estimated"},
		{"afs-p", need.Of(need.Elastic), "jobs may change their size"},
		{"synergy", need.Of(need.Rations), "cores and memory beside the GPUs matter to jobs"},
		{"gavel", need.Of(need.Types), "jobs are faster on some GPU types than on others"},
		{"muri-s", need.Of(need.Stages, need.RunTimes), "jobs tell their stages, so that some can take turns on a GPU"},
		{"muri-l", need.Of(need.Stages), "jobs tell their stages, so that some can take turns on a GPU"},
		{"antman", need.Of(need.Use, need.Classes), "jobs tell their class of service and how busy they keep their GPUs"},
		{"lucid", need.Of(need.Use, need.Memory), "jobs tell how busy they keep their GPUs, and some can share one"},
		{"maxmin", need.Of(need.Quotas), "tenants have guarantees, which others may borrow"},
		{"drf", need.Of(need.Tenants), "several tenants share the cluster"},
		{"fgd", need.Of(need.Parts), "tasks ask for parts of GPUs, which fragments them"},
	}
}

// general are the policies that order any jobs.
func general() []suggested {
	return []suggested{
		{"tiresias", 0, "short jobs go first, and no run time need be known"},
		{"qssf", need.Of(need.History), "run times are predicted from earlier jobs, and nobody is stopped"},
		{"srtf", need.Of(need.RunTimes), "it shows how short completion times can be if run times are known"},
		{"fifo(mode=easy)", need.Of(need.RunTimes), "small jobs fill gaps, and nobody is stopped or waits longer"},
		{"fifo(mode=skip)", 0, "small jobs fill gaps, and nobody is stopped"},
	}
}

// Suggest runs a trace under fifo, looks at what its jobs tell, and names three policies
// that live on that. One of them at least orders jobs of any kind. No policy that stops jobs
// is named where no job can be stopped. It fails as Run does.
func (x *Experiment) Suggest(ctx context.Context, src *Prepared) (*Advice, error) {
	o, err := x.Run(ctx, Choice{Policy: "fifo"}, src)
	if err != nil {
		return nil, err
	}
	acts := ^policy.Acts(0)
	if pinned(o.State) {
		acts &^= policy.Preempts
	}
	a := &Advice{First: o.Result, Short: o.Result.Wait.Mean > o.Result.JCT.Mean/100}
	if a.Policies, err = fitting(special(), o.facts(), acts, 2, nil); err != nil {
		return nil, err
	}
	a.Policies, err = fitting(general(), o.facts(), acts, 3, a.Policies)
	return a, err
}

// fitting adds the first policies of a list for which a trace has everything, and which do
// no more than the acts that are allowed, until there are n. No two policies that rest on the
// same thing are named.
func fitting(from []suggested, facts need.Set, acts policy.Acts, n int, to []Suggestion) ([]Suggestion, error) {
	had := need.Set(0)
	for _, s := range from {
		if len(to) == n || facts&s.all != s.all || s.all&^need.Of(need.RunTimes)&had != 0 {
			continue
		}
		c, err := ParseChoice(s.policy)
		if err != nil {
			return nil, err
		}
		e, err := c.Entry()
		if err != nil {
			return nil, err
		}
		if !acts.Has(e.Acts) {
			continue
		}
		had |= s.all
		to = append(to, Suggestion{Policy: s.policy, Why: s.why})
	}
	return to, nil
}

// pinned tells whether no job can be stopped.
func pinned(s *state.State) bool {
	for id := range job.ID(s.Jobs()) {
		if s.Record(id).Job.Stop != job.Pinned {
			return false
		}
	}
	return s.Jobs() > 0
}

// Waits says in a sentence how long jobs wait under fifo.
func (a *Advice) Waits() string {
	r := a.First
	if r.JCT.N == 0 {
		return "No job ends under fifo."
	}
	share := 0.0
	if r.JCT.Mean > 0 {
		share = 100 * float64(r.Wait.Mean) / float64(r.JCT.Mean)
	}
	text := fmt.Sprintf("Under fifo %.2g %% of the mean completion time is waiting.", share)
	if !a.Short {
		text += " This cluster is not short of GPUs: no policy can gain more than that by its order alone."
	}
	return text
}

// List is the policies as --policy takes them, fifo first.
func (a *Advice) List() string {
	names := []string{"fifo"}
	for _, s := range a.Policies {
		names = append(names, s.Policy)
	}
	return strings.Join(names, ",")
}
