package clusterimport

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/policy/fairshare"
	"github.com/norn-scheduler/norn/policy/slurm"
)

// policy makes the policy slurm with the settings of the cluster, and says what its
// preemption costs jobs.
func (in *inventory) policy(out *Result) {
	tiers := slices.ContainsFunc(in.partitions, func(p *partition) bool { return p.factor >= 0 || p.tier >= 0 })
	if len(in.settings)+len(in.qoses)+len(in.limits) == 0 && !tiers {
		return
	}
	c := slurm.NewConfig()
	settings := c.Params() // knows the defaults
	in.weights(c)
	in.times(c)
	in.backfill(c)
	out.Stop = in.preemption(c)
	in.tables(c)
	if _, err := c.Policy(); err != nil {
		in.note("nobody is preempted: %v", err)
		c.Preempt, c.QOSs, out.Stop = slurm.Nobody, nil, ""
	}
	out.Policy = "slurm"
	if set := settings.Changed(); len(set) > 0 {
		out.Policy += "(" + strings.Join(set, ",") + ")"
	}
}

// weights sets those of the factors. Slurm without priority/multifactor has none.
func (in *inventory) weights(c *slurm.Config) {
	if t := in.settings["prioritytype"]; t != "" && !strings.EqualFold(t, "priority/multifactor") {
		return
	}
	for name, to := range map[string]*float64{
		"priorityweightage": &c.Fair.Age, "priorityweightfairshare": &c.Fair.Fair, "priorityweightjobsize": &c.Fair.Size,
		"priorityweightpartition": &c.Partition, "priorityweightqos": &c.QOS,
	} {
		v := in.settings[name]
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil && v != "" {
			in.lose(name + " that is no number")
		}
		*to = float64(n)
	}
	c.Fair.Small = strings.EqualFold(in.settings["priorityfavorsmall"], "yes")
	if f, err := strconv.ParseFloat(in.settings["fairsharedampeningfactor"], 64); err == nil && f >= 1 && f <= 1e6 {
		c.Fair.Damping = f
	}
	for flag := range strings.SplitSeq(strings.ToUpper(in.settings["priorityflags"]), ",") {
		switch strings.TrimSpace(flag) {
		case "NO_FAIR_TREE":
			c.Fair.Rank = fairshare.Classic
		case "FAIR_TREE", "":
		default:
			if told(flag) {
				in.lose("PriorityFlags " + strings.TrimSpace(flag))
			}
		}
	}
}

// times sets periods and ages.
func (in *inventory) times(c *slurm.Config) {
	set := func(name string, least, most time.Duration, to *time.Duration) {
		v := in.settings[name]
		switch d, ok := slurmTime(v); {
		case !told(v):
		case !ok || d < least || d > most:
			in.lose(name + "=" + short(v))
		default:
			*to = d
		}
	}
	set("prioritymaxage", time.Minute, unit.Never, &c.Fair.MaxAge)
	set("prioritycalcperiod", time.Second, time.Hour, &c.Fair.Period)
	set("preemptexempttime", 0, unit.Never, &c.Exempt)
	if d, ok := slurmTime(in.settings["prioritydecayhalflife"]); ok && d == 0 {
		c.Fair.HalfLife = unit.Never
	}
}

// backfill sets what happens behind a job that does not fit.
func (in *inventory) backfill(c *slurm.Config) {
	if strings.EqualFold(in.settings["schedulertype"], "sched/builtin") {
		c.Fair.Mode = fairshare.Strict
	}
	for p := range strings.SplitSeq(in.settings["schedulerparameters"], ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		n, err := strconv.Atoi(value)
		switch {
		case !told(name):
		case name == "bf_max_job_test" && err == nil && n > 0:
			c.Fair.Depth = n
		case strings.HasPrefix(name, "bf_"), strings.HasPrefix(name, "preempt_"), strings.HasPrefix(name, "sched_"):
			in.lose("SchedulerParameters " + name)
		}
	}
}

// preemption sets who may be stopped, and says what that costs jobs.
func (in *inventory) preemption(c *slurm.Config) (stop string) {
	mode := strings.ToUpper(in.settings["preemptmode"])
	switch strings.ToLower(in.settings["preempttype"]) {
	case "preempt/qos":
		c.Preempt = slurm.ByQOS
	case "preempt/partition_prio":
		c.Preempt = slurm.ByPartition
	}
	switch {
	case c.Preempt == slurm.Nobody:
		return ""
	case mode == "" || strings.HasPrefix(mode, "OFF"):
		in.note("nobody is preempted: PreemptMode is OFF")
		c.Preempt = slurm.Nobody
		return ""
	case strings.Contains(mode, "SUSPEND"):
		in.note("PreemptMode=%s: a job that is stopped keeps its memory and waits; its GPUs go to others", mode)
		return "freeze"
	case strings.Contains(mode, "CANCEL"):
		in.note("PreemptMode=%s: a job that is stopped waits again and begins anew, for no policy cancels jobs", mode)
	}
	return "restart"
}

// tables sets what is told of partitions and QOSs, where it counts.
func (in *inventory) tables(c *slurm.Config) {
	plain := func(name string) bool { return name != "" && !strings.ContainsAny(name, ":,+()= ") }
	for _, p := range in.partitions {
		factor, tier := max(p.factor, 0), max(p.tier, 0)
		if p.factor < 0 {
			factor = 1
		}
		if p.tier < 0 {
			tier = 1
		}
		text := p.name + ":" + strconv.FormatFloat(factor, 'f', -1, 64)
		if tier != 1 {
			text += ":" + strconv.Itoa(tier)
		}
		switch {
		case tier == 1 && (factor == 1 || c.Partition == 0):
		case !plain(p.name):
			in.lose("partitions whose names settings cannot have")
		default:
			c.Partitions = append(c.Partitions, text)
		}
	}
	for _, l := range in.limits {
		if !plain(l[0]) {
			in.lose("limits of associations whose names settings cannot have")
			continue
		}
		c.Accounts = append(c.Accounts, l[0]+":"+l[1])
	}
	for _, q := range in.qoses {
		switch most := strings.TrimRight(strings.Join(q.limits[:], ":"), ":"); {
		case most == "":
		case !plain(q.name):
			in.lose("limits of QOSs whose names settings cannot have")
		default:
			c.Limits = append(c.Limits, q.name+":"+most)
		}
		text := q.name + ":" + strconv.FormatFloat(q.priority, 'f', -1, 64)
		if c.Preempt == slurm.ByQOS && len(q.preempts) > 0 {
			text += ":" + strings.Join(slices.DeleteFunc(slices.Clone(q.preempts), func(n string) bool { return !plain(n) }), "+")
		}
		switch counts := c.QOS > 0 && q.priority > 0 || c.Preempt == slurm.ByQOS; {
		case !counts:
		case !plain(q.name):
			in.lose("QOSs whose names settings cannot have")
		default:
			c.QOSs = append(c.QOSs, text)
		}
	}
}
