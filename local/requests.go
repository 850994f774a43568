package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
)

// Submit implements server.Backend.
func (d *Daemon) Submit(ctx context.Context, c server.Caller, spec api.JobSpec) (ids []string, err error) {
	in := intake{&d.opt}
	if err := in.complete(&spec); err != nil {
		return nil, err
	}
	s := &stored{Spec: spec, Submitted: time.Now().UTC(), Exempt: c.Operator}
	if s.Indices, s.AtOnce, err = array(spec.Array, d.opt.Limits.Array); err != nil {
		return nil, err
	}
	if s.User, s.Cred, err = in.runAs(c, spec.User); err != nil {
		return nil, err
	}
	if d.opt.TenantOf != nil {
		switch tenant, err := d.opt.TenantOf(s.User, spec.Tenant); {
		case err == nil:
			s.Spec.Tenant = tenant
		case !c.Operator:
			return nil, api.Refuse(api.Denied, "%v", err)
		case spec.Tenant == "": // an operator needs no tenant to try something
			s.Spec.Tenant = s.User
		}
	}
	if _, err := in.demand(&spec); err != nil {
		return nil, err
	}
	if err := in.mayAsk(s); err != nil {
		return nil, err
	}
	if err := d.MayChange(); err != nil {
		return nil, err
	}
	if d.health.refuses.Load() {
		return nil, api.Refuse(api.Unavailable, "the disk of norn's state folder is nearly full: no new jobs are taken until there is room")
	}
	if err := d.Known(ctx, c, spec.After); err != nil {
		return nil, err
	}
	s.ID = strconv.FormatInt(d.NewNumber(), 10)
	if err := d.store.writeSpec(s); err != nil {
		return nil, api.Refuse(api.Unavailable, "the job cannot be stored: %v", err)
	}
	if err := d.Change(ctx, func() error { return d.submit(s) }); err != nil {
		var no *api.Error
		if errors.As(err, &no) { // it was not taken in
			d.store.dropSpec(s.ID)
		}
		return nil, err
	}
	if len(s.Indices) > 0 {
		ids = append(ids, s.ID)
	}
	return append(ids, s.keys()...), nil
}

// submit takes in a job whose description is on disk.
func (d *Daemon) submit(s *stored) error {
	keys := s.keys()
	if err := d.Room(&newEntry(keys[0], s).Job, len(keys)); err != nil {
		return err
	}
	for _, key := range keys {
		spec, err := d.engineJob(s, key, d.Loop.Now())
		if err != nil {
			return err
		}
		l := newEntry(key, s)
		d.entries[key] = l
		d.Admit(&l.Job, spec)
	}
	return nil
}

// mayAsk refuses what the limits of its user and of its tenant never allow.
func (d intake) mayAsk(s *stored) error {
	if s.Exempt {
		return nil
	}
	q := &d.opt.Limits.Quotas
	if err := q.User.Refuses("of user "+s.User, &s.Spec, len(s.keys())); err != nil {
		return err
	}
	return q.Tenant.Refuses("of tenant "+s.Spec.Tenant, &s.Spec, len(s.keys()))
}

// runAs is the user that a job runs as: the caller, or the user that an
// operator names. The daemon's own user needs no credentials; others need a
// daemon that runs as root.
func (d intake) runAs(c server.Caller, name string) (string, *rundir.User, error) {
	if name != "" && name != c.User && !c.Operator {
		return "", nil, api.Refuse(api.Denied, "user %s may not submit jobs for %s", c.User, name)
	}
	if name == "" {
		name = c.User
	}
	return credentials(name, c)
}

// credentials are those of a user as the system knows her.
func credentials(name string, c server.Caller) (string, *rundir.User, error) {
	me, err := user.Current()
	if err != nil {
		return "", nil, err
	}
	u := me
	if name == c.User && c.Local {
		if u, err = user.LookupId(strconv.Itoa(int(c.UID))); err != nil { // a user without a name
			u = &user.User{Uid: strconv.Itoa(int(c.UID)), Gid: strconv.Itoa(int(c.UID)), Username: name}
		}
	} else if u, err = user.Lookup(name); err != nil {
		return "", nil, api.Refuse(api.Invalid, "user %s is not known on this machine", name)
	}
	own := name == c.User && c.Local && c.Grouped
	if u.Uid == me.Uid && !(own && me.Uid == "0" && fewer(&c)) {
		return name, nil, nil
	}
	if me.Uid != "0" {
		return "", nil, api.Refuse(api.Denied, "this norn runs as %s and cannot run jobs as %s; a norn that serves several users runs as root", me.Username, name)
	}
	cred := &rundir.User{}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err1 != nil || err2 != nil {
		return "", nil, fmt.Errorf("user %s has no numbers", name)
	}
	cred.UID, cred.GID = uint32(uid), uint32(gid)
	if own { // what her process has given up does not come back
		cred.GID, cred.Groups = c.GID, c.Groups
		return name, cred, nil
	}
	if groups, err := u.GroupIds(); err == nil {
		for _, g := range groups {
			if n, err := strconv.ParseUint(g, 10, 32); err == nil {
				cred.Groups = append(cred.Groups, uint32(n))
			}
		}
	}
	return name, cred, nil
}

// fewer tells whether a caller of the daemon's own user has other groups than the daemon.
func fewer(c *server.Caller) bool {
	has, err := os.Getgroups()
	if err != nil || int(c.GID) != os.Getgid() || len(has) != len(c.Groups) {
		return true
	}
	return slices.ContainsFunc(c.Groups, func(g uint32) bool { return !slices.Contains(has, int(g)) })
}

// end makes a run leave at a person's request.
func (d *Daemon) end(l *entry, p live.Purpose, seq int, how rundir.WantState, grace api.Seconds, why string) {
	l.Purpose, l.Why, l.Decided = p, why, d.Loop.Now()
	d.happens(l, toEnd)
	l.seq = l.seq/seqs*seqs + seq
	d.wants(l, rundir.Want{Seq: l.seq, State: how, Grace: grace, Why: why})
	l.tell()
	d.Loop.Mark(l.ID)
}

// throwOff makes a running job leave its devices and wait again, with the work
// that it can keep.
func (d *Daemon) throwOff(l *entry, r *job.Record, p live.Purpose, why string) {
	how, grace := l.farewell(r, d.opt.Defaults.CancelGrace)
	d.end(l, p, seqRequeue, how, grace, why)
}

// farewell is how a run is told to leave, and the time that it has; at least is that of one that saves nothing.
func (l *entry) farewell(r *job.Record, least api.Seconds) (rundir.WantState, api.Seconds) {
	if r.Job.Stop == job.Checkpoint {
		return rundir.Save, l.Spec.Stop.Grace
	}
	return rundir.End, least
}
