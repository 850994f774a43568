package slurm

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// limit is what the jobs of a QOS may have at a time; unlimited where nothing is told.
type limit struct {
	gpus     int // all of them together (GrpTRES)
	userGPUs int // those of a user (MaxTRESPerUser)
	userJobs int // how many of a user run (MaxJobsPerUser)
	jobGPUs  int // each job (MaxTRESPerJob)
}

// accountLimit is what the jobs of an account, or of a user in it, may have at a time; unlimited where
// nothing is told. Jobs of an account are those of the accounts below it, too.
type accountLimit struct {
	gpus     int // all of them together (GrpTRES)
	jobs     int // how many run (GrpJobs)
	userJobs int // how many of a user run in one account, unless more is told of the user or an account below (MaxJobs)
	jobGPUs  int // each job, likewise (MaxTRESPerJob)
}

const unlimited = -1

const (
	wantLimit   = "a limit is written QOS:GPUS:GPUS OF A USER:JOBS OF A USER:GPUS OF A JOB, with whole numbers from 0 on, or nothing where there is none"
	wantAccount = "a limit of an account is written ACCOUNT:GPUS:JOBS:JOBS OF A USER:GPUS OF A JOB, one of a user in it ACCOUNT/USER:..., with whole numbers from 0 on, or nothing where there is none"
)

// parseLimits reads the limits of QOSs.
func parseLimits(words []string) (map[string]limit, error) {
	out := map[string]limit{}
	return out, eachLimit("limits", words, wantLimit, func(name string, n [4]int) { out[name] = limit{n[0], n[1], n[2], n[3]} })
}

// parseAccounts reads the limits of accounts, and of users in them.
func parseAccounts(words []string) (map[string]accountLimit, error) {
	out := map[string]accountLimit{}
	return out, eachLimit("accounts", words, wantAccount, func(name string, n [4]int) { out[name] = accountLimit{n[0], n[1], n[2], n[3]} })
}

// eachLimit reads words of a name and up to four numbers.
func eachLimit(setting string, words []string, want string, f func(name string, numbers [4]int)) error {
	told := map[string]bool{}
	for _, w := range words {
		parts := strings.Split(w, ":")
		numbers := [4]int{unlimited, unlimited, unlimited, unlimited}
		if len(parts) < 2 || len(parts) > 1+len(numbers) {
			return fmt.Errorf("%s: %q: %s", setting, w, want)
		}
		for i, text := range parts[1:] {
			if text == "" {
				continue
			}
			n, err := strconv.ParseUint(text, 10, 31)
			if err != nil {
				return fmt.Errorf("%s: %q: %s", setting, w, want)
			}
			numbers[i] = int(n)
		}
		if told[parts[0]] {
			return fmt.Errorf("%s: %q: each name is told once", setting, w)
		}
		told[parts[0]] = true
		f(parts[0], numbers)
	}
	return nil
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

// books is what the jobs of each QOS have, those of each user in it, and those of accounts and of users in
// them, by their names in the setting.
type books struct {
	qos      map[string]held
	user     map[sortKey]held // QOS and user
	accounts map[string]held
}

// open counts the jobs that have devices.
func (x *extra) open(v *sched.View) {
	x.tenants = v.Tenants()
	x.books = books{qos: map[string]held{}, user: map[sortKey]held{}, accounts: map[string]held{}}
	for j := range v.Running() {
		x.Count(x.Sort(j.Spec()), v.Class(j.Class()).Amount.GPU, 1)
	}
}

// add adds a job to those of a key, or takes it off.
func add[K comparable](all map[K]held, k K, gpus unit.Milli, sign int) {
	h := all[k]
	all[k] = held{h.gpus + unit.Milli(sign)*gpus, h.jobs + sign}
}

// Count implements fairshare.Extra.
func (x *extra) Count(sort int32, gpus unit.Milli, sign int) {
	k := x.keys[sort]
	if len(x.limits) > 0 {
		add(x.books.qos, k.qos, gpus, sign)
		add(x.books.user, sortKey{qos: k.qos, user: k.user}, gpus, sign)
	}
	if len(x.accounts) > 0 {
		for _, name := range x.above(k) {
			add(x.books.accounts, name, gpus, sign)
		}
	}
}

// root is what Slurm calls the account above all.
const root = "root"

// above is a user in an account, the account, and those above it, by their names in the setting. It is valid until the
// next call.
func (x *extra) above(k sortKey) []string {
	x.names = append(x.names[:0], k.account+"/"+k.user)
	id, known := x.tenants.Lookup(k.account)
	if !known { // it has no jobs yet
		return append(x.names, k.account, root)
	}
	for ; id > tenant.Root; id = x.tenants.At(id).Parent {
		x.names = append(x.names, x.tenants.At(id).Name)
	}
	x.names = append(x.names, root)
	return x.names
}

// bound is one limit and what counts against it: GPUs, or jobs as so many times one.
type bound struct {
	limit     int
	has, more unit.Milli // what others have, and what the job would have
	jobs      bool       // it limits how many run
	user      bool       // of one user
	kind      string     // QOS or account
	name      string
}

// over tells whether some are more than the limit.
func (b *bound) over(n unit.Milli) bool { return n > unit.Milli(b.limit)*unit.One }

// never says that the job is over the limit by itself.
func (b *bound) never() job.Reason {
	if b.jobs {
		return reason(job.Impossible, "%s %q lets no jobs run: it can never run", b.kind, b.name)
	}
	if b.user {
		return reason(job.Impossible, "asks for %v GPUs, more than the %d that its user may have in %s %q: it can never run", b.more, b.limit, b.kind, b.name)
	}
	return reason(job.Impossible, "asks for %v GPUs, more than the %d that %s %q lets it have: it can never run", b.more, b.limit, b.kind, b.name)
}

// waits says that the job is over the limit beside others.
func (b *bound) waits() job.Reason {
	whose := fmt.Sprintf("%s %q", b.kind, b.name)
	if b.user {
		whose = "its user in " + whose
	}
	if b.jobs {
		return reason(job.Because, "%s of %s run, as many as may", unit.Count(int(b.has/unit.One), "job"), whose)
	}
	return reason(job.Because, "jobs of %s have %v of the %d GPUs that they may have", whose, b.has, b.limit)
}

func reason(code job.ReasonCode, format string, args ...any) job.Reason {
	return job.Reason{Code: code, Job: job.None, Text: fmt.Sprintf(format, args...)}
}

// Allows implements fairshare.Extra: a job that is over a limit of its QOS, or of its accounts, waits, and one that will
// always be can never run.
func (x *extra) Allows(sort int32, gpus unit.Milli) (why job.Reason, ok bool) {
	if len(x.limits)+len(x.accounts) == 0 {
		return job.Reason{}, true
	}
	x.bound(x.keys[sort], gpus)
	for i := range x.bounds {
		if b := &x.bounds[i]; b.over(b.more) {
			return b.never(), false
		}
	}
	for i := range x.bounds {
		if b := &x.bounds[i]; b.over(b.has + b.more) {
			return b.waits(), false
		}
	}
	return job.Reason{}, true
}

// bound lists the limits of jobs of a sort that ask for so many GPUs. What its QOS limits is not limited by accounts; what
// is told of a user in an account, or of an account, for each user or job takes the place of what is told of those above.
func (x *extra) bound(k sortKey, gpus unit.Milli) {
	x.bounds = x.bounds[:0]
	l, limited := x.limits[k.qos]
	if !limited {
		l = limit{unlimited, unlimited, unlimited, unlimited}
	}
	all, own := x.books.qos[k.qos], x.books.user[sortKey{qos: k.qos, user: k.user}]
	x.atMost(l.jobGPUs, bound{more: gpus, kind: "QOS", name: k.qos})
	x.atMost(l.userJobs, bound{has: unit.Milli(own.jobs) * unit.One, more: unit.One, jobs: true, user: true, kind: "QOS", name: k.qos})
	x.atMost(l.userGPUs, bound{has: own.gpus, more: gpus, user: true, kind: "QOS", name: k.qos})
	x.atMost(l.gpus, bound{has: all.gpus, more: gpus, kind: "QOS", name: k.qos})
	if len(x.accounts) == 0 {
		return
	}
	ofUser, ofJob := l.userJobs != unlimited, l.jobGPUs != unlimited // somebody before has told that limit
	names := x.above(k)
	has := unit.Milli(x.books.accounts[names[0]].jobs) * unit.One
	for i, name := range names {
		a, limited := x.accounts[name]
		if !limited {
			continue
		}
		held, user := x.books.accounts[name], i == 0
		if user {
			name = k.account
		}
		if !ofJob {
			x.atMost(a.jobGPUs, bound{more: gpus, kind: "account", name: name})
		}
		if !ofUser {
			x.atMost(a.userJobs, bound{has: has, more: unit.One, jobs: true, user: true, kind: "account", name: k.account})
		}
		x.atMost(a.jobs, bound{has: unit.Milli(held.jobs) * unit.One, more: unit.One, jobs: true, user: user, kind: "account", name: name})
		if l.gpus == unlimited {
			x.atMost(a.gpus, bound{has: held.gpus, more: gpus, user: user, kind: "account", name: name})
		}
		ofUser, ofJob = ofUser || a.userJobs != unlimited, ofJob || a.jobGPUs != unlimited
	}
}

// atMost adds a limit, where there is one.
func (x *extra) atMost(limit int, b bound) {
	if limit != unlimited {
		b.limit = limit
		x.bounds = append(x.bounds, b)
	}
}
