package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Differences that a verdict takes to be worth telling.
const (
	worthwhile  = 0.01             // of the mean JCT: what is less is no help
	scarce      = 0.01             // of all completion times: where waits are less, GPUs are not short
	scarceClass = 0.05             // of the completion times of the jobs of one size
	noticed     = 10 * time.Second // mean wait of a class: what is less hurts nobody
	noticedPart = 0.05             // of the mean wait that it had
	harmful     = 0.01             // of the mean JCT that the class had
	longAWait   = time.Minute      // what is worth telling of the longest waits
	trusted     = 0.05             // of the mean JCT: simulations that are further off are not to be taken for what was
)

// Verdict says in one sentence what the comparison comes to: which run helps, by how much,
// and at whose expense; that none helps; or that no order of jobs could.
func (c *Comparison) Verdict() string {
	base := c.Versus(c.Base)
	if base.Jobs == 0 {
		return "No job has ended, so there is nothing to compare."
	}
	if c.real() < 0 {
		return c.verdict(base) + "."
	}
	sim := c.reference()
	if sim < 0 {
		return c.verdict(base) + "; no simulation of fifo shows how far that is off."
	}
	off := c.off(sim)
	but := fmt.Sprintf("simulated %s is off by %s from what really happened", clean(c.Runs[sim].Name), signedShare(off))
	switch best := c.best(c.tried()); {
	case math.Abs(off) <= trusted:
		return c.verdict(base) + "."
	case c.Base == c.real() && (len(best) == 0 || math.Abs(best[0].vs.Change()) < 2*math.Abs(off)):
		return strings.ToUpper(but[:1]) + but[1:] + ", so how others compare with that tells nothing of policies."
	}
	return c.verdict(base) + "; but " + but + "."
}

// real is the run that really happened; -1: it is not known.
func (c *Comparison) real() int { return slices.IndexFunc(c.Runs, func(r Run) bool { return r.Real }) }

// reference is the simulation that is held against what really happened: that of the
// baseline, or else of what was in force, or of fifo; -1: there is none.
func (c *Comparison) reference() int {
	if !c.Runs[c.Base].Real {
		return c.Base
	}
	if i := slices.IndexFunc(c.Runs, func(r Run) bool { return r.Check }); i >= 0 {
		return i
	}
	return slices.IndexFunc(c.Runs, isFIFO)
}

// isFIFO tells whether a run is of fifo, perhaps with settings: what a cluster does that is
// told nothing else.
func isFIFO(r Run) bool { return r.Name == "fifo" || strings.HasPrefix(r.Name, "fifo(") }

// off is how far a simulation is from what really happened, as a part of the mean JCT.
func (c *Comparison) off(run int) float64 {
	v := c.beside(c.real(), run)
	return v.Change()
}

// verdict is Verdict without a look at what really happened, and without its full stop.
func (c *Comparison) verdict(base *Versus) string {
	tried := c.tried()
	best := c.best(tried)
	if len(best) > 0 && best[0].vs.Change() <= -worthwhile {
		return c.helps(best)
	}
	if text := c.plenty(base); text != "" {
		return text
	}
	name := c.Runs[c.Base].Name
	switch {
	case len(tried) == 0:
		return fmt.Sprintf("Under %s jobs wait for %s on average, %s of their completion times; no other policy was tried", name, unit.Human(base.Here.Wait.Mean), shareText(share(&base.Here)))
	case len(best) == 0:
		return fmt.Sprintf("No job that ended under %s ended otherwise, so there is nothing to compare", name)
	case all(tried, func(r int) bool { v := c.Versus(r); return v.Same }):
		return fmt.Sprintf("%s %s no difference: each job ends when it does under %s", c.names(tried), verb(len(tried), "makes", "make"), name)
	}
	text := fmt.Sprintf("None of %s helps: the best, %s, changes", c.names(tried), c.called(best[0].run))
	if len(tried) == 1 {
		text = c.called(best[0].run) + " does not help: it changes"
	}
	return fmt.Sprintf("%s the mean completion time by %s from %s", text, signedShare(best[0].vs.Change()), name)
}

// tried are the runs beside the baseline that were simulated.
func (c *Comparison) tried() []int {
	var out []int
	for i := range c.Runs {
		if i != c.Base && !c.Runs[i].Real && !c.Runs[i].Check {
			out = append(out, i)
		}
	}
	return out
}

// candidate is a run beside the baseline, and what it does to those who lose by it.
type candidate struct {
	run  int
	vs   *Versus
	loss loss
}

// best are the runs with the least mean JCT, of those that leave fewest jobs behind: all
// whose change reads the same, those first that do least harm.
func (c *Comparison) best(tried []int) []candidate {
	var all []candidate
	for _, run := range tried {
		if v := c.Versus(run); v.Jobs > 0 {
			all = append(all, candidate{run: run, vs: v})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.vs.Left, b.vs.Left), cmp.Compare(a.vs.Change(), b.vs.Change()))
	})
	n := 0
	for n < len(all) && all[n].vs.Left == all[0].vs.Left && signedShare(all[n].vs.Change()) == signedShare(all[0].vs.Change()) {
		if all[n].vs.Change() <= -worthwhile { // otherwise nobody asks at whose expense
			all[n].loss = c.loss(all[n].run)
		}
		n++
	}
	slices.SortStableFunc(all[:n], func(a, b candidate) int { return cmp.Compare(a.loss.weight, b.loss.weight) })
	return all[:n]
}

// helps tells of the best runs: of all that are alike, also in who loses by them.
func (c *Comparison) helps(best []candidate) string {
	var alike []int
	for _, b := range best {
		if b.loss.text == best[0].loss.text {
			alike = append(alike, b.run)
		}
	}
	v := best[0].vs
	text := fmt.Sprintf("%s: mean completion time %s from %s (%s instead of %s)", c.names(alike), signedShare(v.Change()), c.Runs[c.Base].Name, unit.Human(v.Here.JCT.Mean), unit.Human(v.Base.JCT.Mean))
	if v.Left > 0 {
		text += fmt.Sprintf("; %s that ended there %s here", unit.Count(v.Left, "job"), verb(v.Left, "does not end", "do not end"))
	}
	if best[0].loss.text != "" {
		text += "; " + best[0].loss.text
	}
	return text
}

// plenty says that GPUs are not short; it is empty where they are, or where the jobs of
// one size wait for long.
func (c *Comparison) plenty(base *Versus) string {
	if share(&base.Here) >= scarce {
		return ""
	}
	for _, x := range c.Classes(BySize) {
		if r := &x.Runs[c.Base]; r.Ended > 0 && float64(r.Wait) >= scarceClass*float64(r.JCT) && r.Wait >= noticed {
			return ""
		}
	}
	name := c.Runs[c.Base].Name
	if base.Here.Wait.Max == 0 {
		return fmt.Sprintf("This cluster is not short of GPUs: under %s no job waits, and no order of jobs could help", name)
	}
	text := fmt.Sprintf("This cluster is not short of GPUs: under %s waits are %s of completion times, and no order of jobs could save more than that", name, shareText(share(&base.Here)))
	if p99 := base.Here.Wait.P99; p99 >= longAWait {
		text += "; one job in 100 waits longer than " + unit.Human(p99)
	}
	return text
}

// share is the part of all completion times that was spent waiting.
func share(t *Times) float64 {
	return safeShare(t.Wait.Mean.Seconds(), t.JCT.Mean.Seconds())
}

// loss is who loses by a run.
type loss struct {
	text   string
	weight float64 // added wait of the class that loses most, by its mean JCT; 0: nobody loses
}

// loss looks for the jobs that wait longer than in the baseline: by size, then by length,
// then by tenant. Where there is nobody, also among users, it says so.
func (c *Comparison) loss(run int) loss {
	longer := false
	for _, by := range Groupings() {
		var worst loss
		for _, x := range c.Classes(by) {
			r := &x.Runs[run]
			longer = longer || r.Wait > r.BaseWait
			more := r.Wait - r.BaseWait
			weight := safeShare(more.Seconds(), r.BaseJCT.Seconds())
			if more < noticed || float64(more) < noticedPart*float64(r.BaseWait) || weight < harmful || weight <= worst.weight {
				continue
			}
			worst = loss{fmt.Sprintf("%s %s", x.jobs(r.Ended), waits(r)), weight}
		}
		if worst.text != "" && by != ByUser {
			return worst
		}
	}
	if !longer {
		return loss{text: "the mean wait grows for no size, length, tenant or user"}
	}
	return loss{}
}

// jobs names some jobs of a class.
func (x *Class) jobs(n int) string {
	text := strings.Replace(unit.Count(n, "job"), strconv.Itoa(n), number(n), 1)
	switch {
	case x.By == BySize && x.Name == "0":
		return text + " without GPUs"
	case x.By == BySize && x.Name == "1":
		return text + " of 1 GPU"
	case x.By == BySize && x.Name[0] == '>':
		return text + " of more than " + x.Name[1:] + " GPUs"
	case x.By == BySize:
		return text + " of " + strings.Replace(x.Name, "-", " to ", 1) + " GPUs"
	case x.By == ByLength && x.Name[0] == '<':
		return text + " shorter than " + x.Name[1:]
	case x.By == ByLength && x.Name[0] == '>':
		return text + " longer than " + x.Name[1:]
	case x.By == ByLength:
		return text + " of " + strings.Replace(x.Name, "-", " to ", 1)
	case x.Name == "":
		return text + " of no " + x.By.String()
	}
	return text + " of " + x.By.String() + " " + clean(x.Name)
}

// waits says how much longer the jobs of a class wait than in the baseline.
func waits(r *ClassRun) string {
	wait := verb(r.Ended, "waits", "wait")
	factor := safeShare(r.Wait.Seconds(), r.BaseWait.Seconds())
	switch {
	case r.BaseWait < time.Second:
		return fmt.Sprintf("%s for %s instead of %s", wait, unit.Human(r.Wait), unit.Human(r.BaseWait))
	case factor < 2:
		return fmt.Sprintf("%s %s longer", wait, shareText(factor-1))
	case factor < 10:
		return fmt.Sprintf("%s %s times as long", wait, strings.TrimSuffix(strconv.FormatFloat(factor, 'f', 1, 64), ".0"))
	}
	return fmt.Sprintf("%s %s times as long", wait, number(int(math.Round(factor))))
}

// Checks say how far simulations are from what happened, a sentence each: that of fifo and
// that of the baseline, or of the first run. There are none where nobody knows.
func (c *Comparison) Checks() []string {
	was, first := c.real(), c.reference()
	if was < 0 {
		return nil
	}
	known := c.beside(was, was)
	out := []string{fmt.Sprintf("%s: the trace tells when %s of %s jobs started.", strings.ToUpper(c.Runs[was].Name[:1])+c.Runs[was].Name[1:], number(known.Jobs), number(len(c.Jobs)))}
	far := false
	for i := range c.Runs {
		if i == was || i != first && !isFIFO(c.Runs[i]) {
			continue
		}
		v := c.beside(was, i)
		if v.Jobs == 0 {
			continue
		}
		out = append(out, fmt.Sprintf("Simulated %s waits for %s on average, your cluster for %s; its mean completion time is off by %s.",
			c.Runs[i].Name, unit.Human(v.Here.Wait.Mean), unit.Human(v.Base.Wait.Mean), signedShare(v.Change())))
		far = far || math.Abs(v.Change()) > trusted
	}
	if far {
		out = append(out, "What was simulated is not what you had, in GPUs, limits, failures or order: compare runs with each other, and take no smaller change for a gain.")
	}
	return out
}

// called is the name of a run, with what is to be known of it.
func (c *Comparison) called(run int) string {
	if r := &c.Runs[run]; !r.Informed {
		return clean(r.Name)
	}
	return clean(c.Runs[run].Name) + " (knew true run times)"
}

// names are the names of runs as a reader lists them.
func (c *Comparison) names(runs []int) string {
	var out []string
	for _, r := range runs {
		out = append(out, c.called(r))
	}
	if len(out) < 2 {
		return strings.Join(out, "")
	}
	return strings.Join(out[:len(out)-1], ", ") + " and " + out[len(out)-1]
}

func all(runs []int, is func(int) bool) bool {
	return !slices.ContainsFunc(runs, func(r int) bool { return !is(r) })
}

func verb(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

// shareText writes a share in per cent with two figures, but for what is above 99.
func shareText(v float64) string {
	digits := 0
	for x := math.Abs(v) * 100; x > 0 && math.Round(x*math.Pow10(digits)) < 10 && digits < 4; {
		digits++
	}
	text := strconv.FormatFloat(v*100, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + "%"
}

// signedShare is a change with its sign, none where it reads as zero.
func signedShare(v float64) string {
	digits := 0
	switch size := math.Abs(v); {
	case size < 0.0995 || size >= 0.995 && size < 0.9995:
		digits = 1
	case size >= 0.9995 && size < 1:
		digits = 2
	}
	text := strconv.FormatFloat(v*100, 'f', digits, 64)
	switch {
	case strings.Trim(text, "-0.") == "":
		return "0%"
	case v > 0:
		return "+" + text + "%"
	}
	return text + "%"
}
