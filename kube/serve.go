package kube

import (
	"context"

	core "k8s.io/api/core/v1"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/cluster"
)

// Submit implements server.Backend.
func (d *Daemon) Submit(context.Context, server.Caller, api.JobSpec) ([]string, error) {
	return nil, api.Refuse(api.Invalid, "this norn schedules a Kubernetes cluster: make a Job there, with kubectl for instance, and label it for norn")
}

// Do implements server.Backend: what was asked for stands in the cluster before it is
// answered.
func (d *Daemon) Do(ctx context.Context, c server.Caller, v server.Verb, id string) error {
	err := d.Loop.Ask(ctx, func() error {
		switch l := d.entries[id]; {
		case l == nil:
		case v == server.Release && (l.short || l.unfit != "" || d.queues.denied(&l.ask, l.namespace) != ""):
			return api.Refuse(api.Conflict, "job %s cannot be released: %s", id, d.State().Record(l.ID).Reason.Text)
		case v == server.Requeue && l.kind != aJob:
			if _, err := d.Mine(c, id); err == nil {
				return api.Refuse(api.Conflict, "job %s is a %s: its pods would be deleted, and nobody would make them again", id, l.kind)
			}
		}
		return nil
	})
	if err == nil {
		err = d.Daemon.Do(ctx, c, v, id)
	}
	if err == nil && d.write.ended() {
		return api.Refuse(api.Unavailable, "this norn leads no more, and may not have noted that in the cluster: ask again")
	}
	return err
}

// Input implements server.Backend.
func (d *Daemon) Input(_ context.Context, _ server.Caller, id string, _ api.Input) error {
	return api.Refuse(api.Conflict, "job %s runs in a Kubernetes cluster: use kubectl attach", id)
}

// Node implements server.Backend: the cluster as if it were one machine.
func (d *Daemon) Node(ctx context.Context) (api.Node, error) {
	nodes, err := d.Nodes(ctx, server.Caller{}, api.NodeQuery{})
	return api.Whole(d.opt.Name, nodes), err
}

// nodeNote says why a node is as it is; false: it is gone.
func (d *Daemon) nodeNote(id cluster.NodeID, out *api.Node) bool {
	n := d.nodes.nodes[id]
	out.Note = n.why
	return !n.gone
}

// Metrics implements server.Backend.
func (d *Daemon) Metrics(ctx context.Context) (m server.Metrics, err error) {
	err = d.Loop.Ask(ctx, func() error {
		m = d.Measures()
		return nil
	})
	if err == nil {
		m.Node, err = d.Node(ctx)
	}
	return m, err
}

// Drain implements server.Backend: nodes are cordoned, as by kubectl cordon.
func (d *Daemon) Drain(ctx context.Context, c server.Caller, z api.Drain) error {
	if !c.Operator {
		return api.Refuse(api.Denied, "only an operator may drain nodes")
	}
	var chosen []string
	err := d.Loop.Ask(ctx, func() error {
		nodes, err := fleet{d}.meant(&z)
		if len(nodes) == 0 && err == nil {
			err = api.Refuse(api.Invalid, "name the nodes that are to take no new work")
		}
		for _, id := range nodes {
			chosen = append(chosen, d.nodes.names[id])
		}
		return err
	})
	if err != nil {
		return err
	}
	body := []byte(`{"spec":{"unschedulable":true}}`)
	if z.Undo {
		body = []byte(`{"spec":{"unschedulable":null}}`)
	}
	return d.write.patchNodes(chosen, body)
}

// Fsck implements server.Backend: what is kept stands in the API, and is compared with what
// was decided all the time.
func (d *Daemon) Fsck(context.Context, server.Caller, bool) (api.Fsck, error) {
	return api.Fsck{Findings: d.Findings()}, nil
}

// Output implements server.Backend: the log of the first pod of a job.
func (d *Daemon) Output(ctx context.Context, c server.Caller, id string, run int) (server.Output, error) {
	var pod *core.Pod
	err := d.Loop.Ask(ctx, func() error {
		if _, err := d.Mine(c, id); err != nil {
			return err
		}
		if s := d.view.see(id); s != nil && len(s.pods) > 0 {
			pod = s.pods[0]
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	where := "kubectl logs -n NAMESPACE POD"
	if pod != nil {
		where = "kubectl logs -n " + pod.Namespace + " " + pod.Name
	}
	return nil, api.Refuse(api.Conflict, "the outputs of pods are read with the reader's own rights: %s", where)
}
