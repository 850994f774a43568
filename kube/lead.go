package kube

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/norn-scheduler/norn/kube/names"
)

// Election says how one of several Norns comes to lead: by a Lease in a namespace.
type Election struct {
	Client    kubernetes.Interface
	Namespace string
	Identity  string        // of this process, unlike any other
	Lease     time.Duration // for which a leader that is not heard of still counts as one, in whole seconds, and at least 2 s longer than Renew; 0: 15 s
	Renew     time.Duration // within which a leader must renew the Lease, or ends; 0: 10 s
	Retry     time.Duration // between two tries; 0: 2 s
}

// originOf is an annotation of the Lease: the origin of time.
const originOf = names.Group + "/origin"

// Lead waits until this process leads, and calls f with the origin of time and a context
// that ends when it does not lead any more. leads tells whether it may still write. It
// returns what f returns, or an error when another process leads.
func (e *Election) Lead(ctx context.Context, f func(ctx context.Context, origin time.Time, leads func() bool) error) error {
	if e.Lease == 0 {
		e.Lease, e.Renew, e.Retry = 15*time.Second, 10*time.Second, 2*time.Second
	}
	const whole = time.Second // of which a Lease and its renewals are told
	e.Lease = max(e.Lease, e.Renew+2*whole)
	e.Lease = (e.Lease + whole - 1).Truncate(whole)
	held, stop := context.WithCancel(context.WithoutCancel(ctx)) // the Lease is let go when nothing is written any more
	defer stop()
	lock := &fenced{Interface: &resourcelock.LeaseLock{
		LeaseMeta: meta.ObjectMeta{Namespace: e.Namespace, Name: names.Lease}, Client: e.Client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
	}, good: e.Renew}
	ended := make(chan error, 1)
	led := atomic.Bool{}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: e.Lease, RenewDeadline: e.Renew, RetryPeriod: e.Retry, ReleaseOnCancel: true, Name: names.Lease,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				led.Store(true)
				leading, end := context.WithCancel(leading)
				defer context.AfterFunc(ctx, end)()
				origin, err := e.origin(leading)
				if err == nil {
					err = f(leading, origin, lock.leads)
				}
				end()
				ended <- err
				lock.quiet.Store(true)
				stop()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("the election of a leader: %w", err)
	}
	defer context.AfterFunc(ctx, func() {
		if !led.Load() {
			stop()
		}
	})()
	elector.Run(held)
	if !led.Load() {
		return ctx.Err()
	}
	return <-ended
}

// slack is how long a write may take that begins while the Lease is good, so that it has come
// to its end when another process leads. Others tell renewals apart by their seconds, so that
// the Lease may seem to be over a second early.
func (e *Election) slack() time.Duration { return e.Lease - e.Renew - time.Second }

// MakeNamespace makes the namespace of the Lease, where it is missing.
func MakeNamespace(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().Namespaces().Get(ctx, name, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.CoreV1().Namespaces().Create(ctx, &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name}}, meta.CreateOptions{})
	}
	if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) { // who may not look into it may still use the Lease
		return nil
	}
	return fmt.Errorf("namespace %s: %w", name, err)
}

// fenced notes when the Lease was last renewed, so that a process whose clock stood still
// for a while knows that another one may lead. It lets go of the Lease only where this process
// still holds it and writes nothing any more: client-go does so after every renewal that
// failed, whoever has taken the Lease meanwhile.
type fenced struct {
	resourcelock.Interface
	good   time.Duration
	last   atomic.Int64 // when the last renewal was asked for, in nanoseconds of the monotonic clock
	wall   atomic.Int64 // the same by the clock of the day, which goes on while a machine sleeps
	quiet  atomic.Bool  // nothing is written any more
	holder string       // by the version of the Lease read last, which an update replaces
}

var began = time.Now()

// Create implements resourcelock.Interface.
func (f *fenced) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	at := time.Now()
	err := f.Interface.Create(ctx, r)
	f.note(at, err)
	return err
}

// Get implements resourcelock.Interface.
func (f *fenced) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := f.Interface.Get(ctx)
	if err == nil {
		f.holder = r.HolderIdentity
	}
	return r, raw, err
}

// Update implements resourcelock.Interface.
func (f *fenced) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	at := time.Now()
	if r.HolderIdentity == "" { // the Lease is let go
		f.last.Store(math.MinInt64 / 2)
		if !f.quiet.Load() || f.holder != f.Identity() { // it runs out by itself, or is another's
			return nil
		}
		return f.Interface.Update(ctx, r)
	}
	err := f.Interface.Update(ctx, r)
	f.note(at, err)
	return err
}

func (f *fenced) note(at time.Time, err error) {
	if err == nil {
		f.wall.Store(at.UnixNano())
		f.last.Store(int64(at.Sub(began)))
	}
}

func (f *fenced) leads() bool { return f.leadsAt(time.Now()) }

// leadsAt tells whether the Lease was renewed a short while before a moment, by both clocks.
func (f *fenced) leadsAt(now time.Time) bool {
	return now.Sub(began)-time.Duration(f.last.Load()) < f.good && now.UnixNano()-f.wall.Load() < int64(f.good)
}

// origin is the origin of time, which the first leader of all writes down.
func (e *Election) origin(ctx context.Context) (at time.Time, err error) {
	err = e.change(ctx, func(lease *coordination.Lease) bool {
		if at, err = time.Parse(time.RFC3339Nano, lease.Annotations[originOf]); err == nil {
			return false
		}
		at = time.Now().UTC().Truncate(time.Microsecond)
		meta.SetMetaDataAnnotation(&lease.ObjectMeta, originOf, at.Format(time.RFC3339Nano))
		return true
	})
	return at, err
}

// note writes an annotation of the Lease.
func (e *Election) note(ctx context.Context, name, text string) error {
	return e.change(ctx, func(lease *coordination.Lease) bool {
		meta.SetMetaDataAnnotation(&lease.ObjectMeta, name, text)
		return true
	})
}

// change changes the Lease, unless f leaves it as it is.
func (e *Election) change(ctx context.Context, f func(*coordination.Lease) bool) error {
	for {
		lease, err := e.Client.CoordinationV1().Leases(e.Namespace).Get(ctx, names.Lease, meta.GetOptions{})
		if err == nil && f(lease) {
			_, err = e.Client.CoordinationV1().Leases(e.Namespace).Update(ctx, lease, meta.UpdateOptions{})
		}
		switch {
		case err == nil:
			return nil
		case !apierrors.IsConflict(err): // it was renewed meanwhile
			return fmt.Errorf("lease %s/%s: %w", e.Namespace, names.Lease, err)
		}
	}
}
