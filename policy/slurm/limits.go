package slurm

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// limit is what the jobs of a QOS may have at a time; unlimited where nothing is told.
type limit struct {
	gpus     int // all of them together (GrpTRES)
	userGPUs int // those of a user (MaxTRESPerUser)
	userJobs int // how many of a user run (MaxJobsPerUser)
	jobGPUs  int // each job (MaxTRESPerJob)
}

const unlimited = -1

const wantLimit = "a limit is written QOS:GPUS:GPUS OF A USER:JOBS OF A USER:GPUS OF A JOB, with whole numbers from 0 on, or nothing where there is none"

// parseLimits reads the limits of QOSs.
func parseLimits(words []string) (map[string]limit, error) {
	if len(words) == 0 {
		return nil, nil
	}
	out := map[string]limit{}
	for _, w := range words {
		parts := strings.Split(w, ":")
		l := limit{unlimited, unlimited, unlimited, unlimited}
		to := []*int{&l.gpus, &l.userGPUs, &l.userJobs, &l.jobGPUs}
		if len(parts) < 2 || len(parts) > 1+len(to) {
			return nil, fmt.Errorf("limits: %q: %s", w, wantLimit)
		}
		for i, text := range parts[1:] {
			if text == "" {
				continue
			}
			n, err := strconv.ParseUint(text, 10, 31)
			if err != nil {
				return nil, fmt.Errorf("limits: %q: %s", w, wantLimit)
			}
			*to[i] = int(n)
		}
		if _, twice := out[parts[0]]; twice {
			return nil, fmt.Errorf("limits: %q: each QOS is told once", w)
		}
		out[parts[0]] = l
	}
	return out, nil
}

// ofUsers tells whether users are told apart.
func ofUsers(all map[string]limit) bool {
	for _, l := range all {
		if l.userGPUs != unlimited || l.userJobs != unlimited {
			return true
		}
	}
	return false
}

// held is what some jobs have.
type held struct {
	gpus unit.Milli
	jobs int
}

// books is what the jobs of each QOS have, and those of each user in it.
type books struct {
	qos  map[string]held
	user map[sortKey]held // without a partition
}

// open counts the jobs that have devices.
func (x *extra) open(v *sched.View) {
	x.books = books{qos: map[string]held{}, user: map[sortKey]held{}}
	for j := range v.Running() {
		x.Count(x.Sort(j.Spec()), v.Class(j.Class()).Amount.GPU, 1)
	}
}

// count adds a job of a QOS and a user, or takes it off.
func (b *books) count(k sortKey, gpus unit.Milli, sign int) {
	k.partition = ""
	all, own := b.qos[k.qos], b.user[k]
	for _, h := range []*held{&all, &own} {
		h.gpus += unit.Milli(sign) * gpus
		h.jobs += sign
	}
	b.qos[k.qos], b.user[k] = all, own
}

// Count implements fairshare.Extra.
func (x *extra) Count(sort int32, gpus unit.Milli, sign int) {
	if x.limits != nil {
		x.books.count(x.keys[sort], gpus, sign)
	}
}

// Allows implements fairshare.Extra: a job that is over a limit of its QOS waits, and one that will always be can
// never run.
func (x *extra) Allows(sort int32, gpus unit.Milli) (why job.Reason, ok bool) {
	k := x.keys[sort]
	l, limited := x.limits[k.qos]
	if !limited {
		return job.Reason{}, true
	}
	because := func(format string, args ...any) job.Reason {
		return job.Reason{Code: job.Because, Job: job.None, Text: fmt.Sprintf(format, args...)}
	}
	over := func(limit int, has unit.Milli) bool {
		return limit != unlimited && has+gpus > unit.Milli(limit)*unit.One
	}
	for _, most := range []int{l.jobGPUs, l.userGPUs, l.gpus} {
		if over(most, 0) {
			return job.Reason{Code: job.Impossible, Job: job.None, Text: fmt.Sprintf("asks for %v GPUs, more than the %d that QOS %q lets it have: it can never run", gpus, most, k.qos)}, false
		}
	}
	all, own := x.books.qos[k.qos], x.books.user[sortKey{qos: k.qos, user: k.user}]
	switch {
	case l.userJobs == 0:
		return job.Reason{Code: job.Impossible, Job: job.None, Text: fmt.Sprintf("QOS %q lets no jobs run: it can never run", k.qos)}, false
	case l.userJobs != unlimited && own.jobs >= l.userJobs:
		return because("%s of its user in QOS %q run, as many as may", unit.Count(own.jobs, "job"), k.qos), false
	case over(l.userGPUs, own.gpus):
		return because("jobs of its user in QOS %q have %v of the %d GPUs that they may have", k.qos, own.gpus, l.userGPUs), false
	case over(l.gpus, all.gpus):
		return because("jobs of QOS %q have %v of the %d GPUs that they may have", k.qos, all.gpus, l.gpus), false
	}
	return job.Reason{}, true
}
