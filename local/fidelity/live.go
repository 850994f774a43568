package fidelity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/trace"
)

// live has the jobs run on this machine, under a daemon of their own.
func (t *Trial) live(ctx context.Context, choice experiment.Choice) (*History, error) {
	if err := os.MkdirAll(t.notes(), 0o700); err != nil {
		return nil, err
	}
	d, err := local.Open(t.options(choice))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	me, err := self()
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(running) }()
	zero, err := t.drive(ctx, d, me)
	var text bytes.Buffer
	if err == nil {
		err = d.Log(ctx, me, &text)
	}
	stop()
	if rerr := <-ended; err == nil {
		err = rerr
	}
	if err != nil {
		return nil, err
	}
	r, err := eventlog.NewReader(&text, "the live event log")
	if err != nil {
		return nil, err
	}
	h := &History{Zero: zero, Offset: zero.Sub(r.Header.Origin)}
	_, err = replay.Fold(r, h)
	return h, err
}

// options are those of a daemon that manages declared slots, limits nobody and
// forgives everything: a job that is stopped before it could say how has nothing
// to save yet.
func (t *Trial) options(choice experiment.Choice) local.Options {
	o := local.Options{
		State: t.state(), Exe: t.Exe, Socket: t.state() + "/none.sock", Policy: choice, Tenants: t.tenants,
		Machine:   local.Machine{Name: "box", Types: []cluster.GPUType{slotType}, Node: t.node()},
		Estimator: predict.User{}, Estimates: "user", Log: t.Log,
		Operator: func(uint32, string) bool { return true },
		Defaults: local.Defaults{Stop: api.Stop{Mode: "never"}, CancelGrace: 1, LogBytes: 1 << 20},
		Limits:   local.Limits{Compact: 1 << 30, Recent: len(t.Jobs), Array: 1},
	}
	for i := range t.Devices {
		o.Machine.Devices = append(o.Machine.Devices, local.Device{Name: "slot" + strconv.Itoa(i), Type: slotType.Name, NUMA: -1})
	}
	return o
}

// self is who submits: whoever runs this.
func self() (server.Caller, error) {
	me, err := user.Current()
	if err != nil {
		return server.Caller{}, err
	}
	uid, err := strconv.ParseUint(me.Uid, 10, 32)
	return server.Caller{User: me.Username, UID: uint32(uid), Local: true, Operator: true}, err
}

// lead is between the start of the daemon and the beginning of the trace.
const lead = 200 * time.Millisecond

// drive submits the jobs when the trace says, and waits until all have ended. It
// returns when the trace began.
func (t *Trial) drive(ctx context.Context, d *local.Daemon, me server.Caller) (zero time.Time, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, t.patience(), errors.New("the jobs do not end"))
	defer cancel()
	events, err := d.Watch(ctx, me, 0)
	if err != nil {
		return zero, err
	}
	all := make(chan error, 1)
	go func() { all <- allEnd(ctx, events, len(t.Jobs)) }()
	zero = time.Now().Add(lead)
	for i := range t.Jobs {
		spec, err := t.spec(&t.Jobs[i])
		if err != nil {
			return zero, err
		}
		select {
		case <-time.After(time.Until(zero.Add(t.Jobs[i].Job.Submit))):
		case <-ctx.Done():
			return zero, context.Cause(ctx)
		}
		if _, err := d.Submit(ctx, me, spec); err != nil {
			return zero, fmt.Errorf("job %s: %w", t.Jobs[i].Job.Key, err)
		}
	}
	return zero, <-all
}

// allEnd waits until so many jobs have ended.
func allEnd(ctx context.Context, events <-chan api.Event, jobs int) error {
	for e := range events {
		if e.Kind == eventlog.End.String() || e.Kind == eventlog.Cancel.String() {
			jobs--
		}
		if jobs == 0 {
			return nil
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.New("the daemon tells of no more events")
}

// patience is how long the jobs may take: several times as long as one behind the
// other.
func (t *Trial) patience() time.Duration {
	sum := 2 * time.Minute
	for i := range t.Jobs {
		sum += 3*t.Jobs[i].Truth.Work + time.Second
	}
	return sum + t.Jobs[len(t.Jobs)-1].Job.Submit
}

// spec is a job as it is submitted.
func (t *Trial) spec(e *trace.Entry) (api.JobSpec, error) {
	arg, err := json.Marshal(work{Time: e.Truth.Work, Burn: t.Burn, Freeze: t.Stop == job.Freeze, Notes: t.notes()})
	return api.JobSpec{
		Name: e.Job.Name, Tenant: e.Job.Tenant, Command: []string{t.Exe, Verb, string(arg)}, Dir: t.notes(),
		GPUs: api.Fixed(float64(e.Job.Demand.GPUs())), Estimate: api.Of(e.Job.Estimate),
		Stop: api.Stop{Mode: t.Stop.String(), Grace: 60},
	}, err
}
