package fakekubelet

import (
	"maps"
	"slices"
	"strconv"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/kube/internal/demand"
)

// stage is where the container of a pod is. It goes from one to the next:
//
//	unseen -> starting -> running -> saving -> ended
//
// and, where a container is started again, from running over waiting back to running. A
// pod that is rejected is ended at once.
type stage int

const (
	unseen   stage = iota // the kubelet has not looked at it
	starting              // it takes its time to start
	running
	waiting // to be started again after a failure
	saving  // it was told to end, and saves
	ended
)

// pod is a pod that is bound to one of the nodes.
type pod struct {
	node  *node
	obj   *core.Pod // as last seen
	stage stage
	asked demand.Resources // held of the node; nil: nothing
	b     Behaviour
	began time.Time     // of the present run of the container
	work  time.Duration // saved before it, virtual
	ends  time.Time     // a saving pod is killed then

	restarts int32
	want     *core.PodStatus // what the API should say; nil: nothing yet
	wrote    *core.PodStatus // what was written last
	busy     bool            // a write is under way
	stale    string          // resource version that a write was refused for
	deleted  bool            // the API was told that the pod is gone
	orphan   bool            // the API has forgotten it while the node was out of reach
	timer    *time.Timer
	alarm    int // number of the timer: an older one that fires late counts for nothing
}

// lives tells whether a pod holds something of its node.
func (p *pod) lives() bool { return p.stage != unseen && p.stage != ended }

// after has the loop call f after a virtual time, unless the pod gets another timer.
func (k *Kubelet) after(p *pod, d time.Duration, f func()) {
	p.quiet()
	alarm := p.alarm
	p.timer = time.AfterFunc(k.real(d), func() {
		k.post(func() {
			if p.alarm == alarm {
				f()
			}
		})
	})
}

// quiet stops the timer of a pod.
func (p *pod) quiet() {
	p.alarm++
	if p.timer != nil {
		p.timer.Stop()
	}
}

// seen looks at a pod as the API has it.
func (k *Kubelet) seen(obj *core.Pod) {
	p, n := k.pods[obj.UID], k.nodes[obj.Spec.NodeName]
	switch {
	case n == nil: // not one of ours
		return
	case p == nil:
		p = &pod{node: n}
		k.pods[obj.UID] = p
	case older(obj, p.obj):
		return
	}
	p.obj = obj
	k.sync(p)
}

// older tells whether a version of an object is older than another one.
func older(a, b *core.Pod) bool {
	x, err := strconv.ParseUint(a.ResourceVersion, 10, 64)
	y, err2 := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return err == nil && err2 == nil && x < y
}

// sync does what the API asks for, as far as the node hears it.
func (k *Kubelet) sync(p *pod) {
	if !p.node.up {
		return
	}
	if p.stage == unseen {
		k.accept(p)
	}
	if p.obj.DeletionTimestamp != nil {
		k.terminate(p)
	} else if p.lives() {
		k.resize(p)
		if p.stage == running && p.want != nil && p.want == p.wrote && p.denied() {
			p.want = p.runs()
		}
	}
	k.write(p)
}

// denied tells whether the API has a pod that runs as not ready, as a node controller says
// of those on a node that is not heard of.
func (p *pod) denied() bool {
	return slices.ContainsFunc(p.obj.Status.Conditions, func(c core.PodCondition) bool {
		return c.Type == core.PodReady && c.Status != core.ConditionTrue
	})
}

// resize gives a pod what it asks for by now, where its node has that. Otherwise the pod
// stays as it is until something of the node becomes free.
func (k *Kubelet) resize(p *pod) {
	asked := demand.Of(p.obj)
	delete(p.node.short, p)
	if maps.Equal(asked, p.asked) {
		return
	}
	p.node.free.Add(p.asked, 1)
	if p.node.admit(p.obj, asked) != nil {
		p.node.free.Add(p.asked, -1)
		p.node.short[p] = true
		return
	}
	p.asked = asked
	if p.stage == running {
		p.want = p.runs()
	}
}

// accept starts a pod, rejects it, or goes on with one that ran before this kubelet did.
func (k *Kubelet) accept(p *pod) {
	p.asked = demand.Of(p.obj)
	switch p.obj.Status.Phase {
	case core.PodSucceeded, core.PodFailed:
		p.stage, p.asked = ended, nil
	case core.PodRunning:
		p.node.free.Add(p.asked, -1)
		p.want = p.obj.Status.DeepCopy()
		p.wrote = p.want
		k.launch(p, p.started())
	default:
		if no := p.node.admit(p.obj, p.asked); no != nil {
			p.stage, p.asked = ended, nil
			p.want = p.rejected(no)
			return
		}
		p.stage = starting
		k.after(p, k.opts.Delay+k.opts.Behave(p.obj).Start, func() {
			k.launch(p, time.Now())
			p.want = p.runs()
			k.write(p)
		})
	}
}

// launch begins a run of the container.
func (k *Kubelet) launch(p *pod, began time.Time) {
	p.stage, p.began = running, began
	p.b = k.opts.Behave(p.obj)
	p.work = k.saved[p.b.Job]
	p.quiet()
	if p.b.Work >= 0 {
		k.after(p, p.b.Work-p.work-k.virtual(began), func() { k.exit(p, p.b.Exit, "", p.b.Message) })
	}
}

// terminate has a pod end within its grace period, which may have become shorter.
func (k *Kubelet) terminate(p *pod) {
	var grace time.Duration
	if s := p.obj.DeletionGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	switch p.stage {
	case starting, waiting:
		k.exit(p, killed, "ContainerStatusUnknown", "")
	case running:
		if !p.b.Saves {
			k.exit(p, terminated, "", "")
			return
		}
		k.keep(p)
		done := p.work + k.virtual(p.began)
		p.stage, p.ends = saving, time.Now().Add(k.real(grace))
		if p.b.Save <= grace {
			k.after(p, p.b.Save, func() { k.save(p, done) })
			return
		}
		k.after(p, grace, func() { k.exit(p, killed, "", "") })
	case saving:
		if ends := time.Now().Add(k.real(grace)); ends.Before(p.ends) {
			k.shorten(p, ends)
		}
	}
}

// shorten has a pod that saves be killed earlier, unless it has ended by then.
func (k *Kubelet) shorten(p *pod, ends time.Time) {
	p.ends = ends
	time.AfterFunc(time.Until(ends), func() {
		k.post(func() {
			if p.stage == saving && !time.Now().Before(p.ends) {
				k.exit(p, killed, "", "")
			}
		})
	})
}

// save ends a pod that has saved its work.
func (k *Kubelet) save(p *pod, done time.Duration) {
	if p.b.Work >= 0 {
		done = min(done, p.b.Work)
	}
	k.saved[p.b.Job] = max(k.saved[p.b.Job], done)
	k.exit(p, ContinueLater, "", p.b.left(done))
}

// keep keeps the work that a running pod has saved on its own.
func (k *Kubelet) keep(p *pod) {
	if p.stage != running || p.b.Every <= 0 {
		return
	}
	done := k.virtual(p.began) / p.b.Every * p.b.Every
	if p.b.Work >= 0 {
		done = min(done, max(0, p.b.Work-p.work))
	}
	k.saved[p.b.Job] = max(k.saved[p.b.Job], p.work+done)
}

// backOff is how long a container waits before it is started again, after so many
// restarts: 10 s, doubled each time, at most 5 min.
func backOff(restarts int32) time.Duration {
	return min(10*time.Second<<min(restarts, 10), 5*time.Minute)
}

// exit ends the container of a pod. It is started again where the pod wants that.
func (k *Kubelet) exit(p *pod, code int32, reason, message string) {
	if p.stage == ended {
		return
	}
	k.keep(p)
	p.quiet()
	again := p.obj.Spec.RestartPolicy == core.RestartPolicyAlways || p.obj.Spec.RestartPolicy == core.RestartPolicyOnFailure && code != 0
	if again && p.stage == running && p.obj.DeletionTimestamp == nil {
		p.stage = waiting
		p.want = p.backsOff(code, message)
		k.after(p, backOff(p.restarts), func() {
			p.restarts++
			k.launch(p, time.Now())
			p.want = p.runs()
			k.write(p)
		})
		k.write(p)
		return
	}
	p.want = p.over(code, reason, message)
	k.end(p)
	k.write(p)
}

// end has a pod hold nothing any more.
func (k *Kubelet) end(p *pod) {
	p.stage = ended
	p.node.free.Add(p.asked, 1)
	p.asked = nil
	delete(p.node.short, p)
	for other := range p.node.short {
		k.sync(other)
	}
}

// lost ends a pod with its node. The end of the pod is told when the node returns.
func (k *Kubelet) lost(p *pod) {
	k.keep(p)
	p.quiet()
	p.want = p.over(killed, "ContainerStatusUnknown", "")
	k.end(p)
}

// vanished looks at a pod that the API has forgotten. Behind a lost network it runs on.
func (k *Kubelet) vanished(uid types.UID) {
	p := k.pods[uid]
	switch {
	case p == nil:
	case p.node.up || !p.lives():
		k.forget(p)
	default:
		p.orphan = true
	}
}

// forget ends a pod without a word.
func (k *Kubelet) forget(p *pod) {
	k.keep(p)
	p.quiet()
	if p.lives() {
		k.end(p)
	}
	delete(k.pods, p.obj.UID)
}
