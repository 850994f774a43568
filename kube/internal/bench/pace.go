package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	batch "k8s.io/api/batch/v1"

	"github.com/norn-scheduler/norn/kube/internal/testenv"
	"github.com/norn-scheduler/norn/kube/names"
)

// load is what users ask a scheduler for: pods of one GPU each.
type load struct {
	pods   int
	gang   int  // pods of a gang or a Job
	jobs   bool // they are Jobs, suspended
	waits  bool // the pods are there before the scheduler
	nodes  int
	plane  []testenv.Option
	limits time.Duration // for which all of them are waited for
}

// contender is a scheduler that is measured.
type contender struct {
	name      string
	scheduler string // of the pods
	plane     []testenv.Option
	start     func(ctx context.Context, c *cluster, l *load) (stop func() error, err error)
}

// contenders are Norn, the limit, and the rivals that are there.
func (b *bench) contenders(l *load) []contender {
	all := []contender{
		{name: "limit", scheduler: names.Scheduler, start: func(ctx context.Context, c *cluster, l *load) (func() error, error) {
			ctx, end := context.WithCancel(ctx)
			_, err := startLeast(ctx, c, l.nodes)
			return func() error { end(); return nil }, err
		}},
		{name: "norn", scheduler: names.Scheduler, start: func(ctx context.Context, c *cluster, l *load) (func() error, error) {
			n, err := b.launchNorn(c)
			if err != nil {
				return nil, err
			}
			if !l.waits {
				err = n.ready(ctx)
			}
			return n.stop, err
		}},
	}
	if b.rivals && !l.jobs && l.gang == 1 {
		all = append(all, contender{
			name: "kube-scheduler", scheduler: "default-scheduler", plane: []testenv.Option{testenv.KubeScheduler()},
			start: func(ctx context.Context, c *cluster, _ *load) (func() error, error) {
				p := c.env.Scheduler()
				return p.Stop, p.Start(ctx)
			},
		})
	}
	return all
}

// run has a contender schedule a load in a cluster of its own.
func (l *load) run(ctx context.Context, k *contender) (p pace, err error) {
	c, err := start(ctx, shape{nodes: l.nodes, options: append(append([]testenv.Option{}, l.plane...), k.plane...)})
	if err != nil {
		return p, err
	}
	defer func() {
		if serr := c.stop(); err == nil {
			err = serr
		}
	}()
	if s := c.env.Scheduler(); s != nil { // it is started when it is its turn
		if err := s.Stop(); err != nil {
			return p, err
		}
	}
	stop, before := func() error { return nil }, time.Duration(0)
	if !l.waits {
		if stop, err = k.start(ctx, c, l); err != nil {
			return p, err
		}
		time.Sleep(time.Second) // what a start still does
	}
	if !l.waits {
		before = c.spent()
	}
	if err := l.make(ctx, c, k.scheduler); err != nil {
		return p, err
	}
	if l.waits {
		before = c.spent()
		if stop, err = k.start(ctx, c, l); err != nil {
			return p, err
		}
	}
	if err = c.untilBound(ctx, l.pods, l.limits); err == nil {
		_ = until(ctx, "all run", 30*time.Second, func() (bool, error) { // the pace of the kubelet, for what it is worth
			_, running, _ := c.count()
			return running >= l.pods, nil
		})
		p = c.pace(l.gang, l.waits)
		p.Server = (c.spent() - before).Seconds() * 1000 / float64(l.pods)
	}
	if serr := stop(); err == nil {
		err = serr
	}
	return p, err
}

// make makes the pods or the Jobs.
func (l *load) make(ctx context.Context, c *cluster, scheduler string) error {
	if !l.jobs {
		return each(l.pods, clients, func(i int) error { return c.makePod(ctx, gangPod(scheduler, i, l.gang)) })
	}
	return each(l.pods/l.gang, clients, func(i int) error {
		return c.makeJob(ctx, fmt.Sprintf("j%05d", i), int32(l.gang), 1, func(j *batch.Job) {
			j.Spec.Template.Annotations[sizeNote] = strconv.Itoa(l.gang)
		})
	})
}

// paces measures a load under all contenders, in turns.
func (b *bench) paces(ctx context.Context, bar, scenario string, l load, bound float64) error {
	l.limits = 5 * time.Minute
	found := map[string][]pace{}
	all := b.contenders(&l)
	for round := range b.rounds {
		for i := range all {
			k := &all[i]
			p, err := l.run(ctx, k)
			if err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			found[k.name] = append(found[k.name], p)
			b.say("%s, round %d: %.0f pods/s, first %.2f s, p99 %.2f s, running %.0f/s", k.name, round+1, p.Bound, p.First, p.P99, p.Running)
			if p.Part > 0 {
				return fmt.Errorf("%s: %d gangs are there in part", k.name, p.Part)
			}
		}
	}
	limit, mine := median(found["limit"], func(p *pace) float64 { return p.Bound }), median(found["norn"], func(p *pace) float64 { return p.Bound })
	r := row{Bar: bar, Scenario: scenario, What: "bound, pods/s", Norn: mine, Limit: limit, Bound: fmt.Sprintf("%.2f of the limit", bound), Met: mine >= bound*limit, Paces: found}
	if k, there := found["kube-scheduler"]; there {
		r.Rivals = fmt.Sprintf("kube-scheduler %.0f", median(k, func(p *pace) float64 { return p.Bound }))
	}
	if b.leastProgram != "" && !l.jobs {
		rate, err := b.shared(ctx, &l)
		if err != nil {
			return err
		}
		r.Rivals = strings.TrimPrefix(r.Rivals+fmt.Sprintf("; kube-least %.0f", rate), "; ")
	}
	b.add(r)
	server := func(p *pace) float64 { return p.Server }
	b.add(row{Bar: bar, Scenario: scenario, What: "CPU of API server and etcd, ms a pod", Norn: median(found["norn"], server), Limit: median(found["limit"], server)})
	if l.waits {
		return nil
	}
	if l.gang == 1 {
		p99 := func(p *pace) float64 { return p.P99 }
		b.add(row{Bar: bar, Scenario: scenario, What: "asked to bound, p99, s", Norn: median(found["norn"], p99), Limit: median(found["limit"], p99), Bound: "1 s", Met: median(found["norn"], p99) < 1})
	} else if !l.jobs {
		first := func(p *pace) float64 { return p.First }
		b.add(row{Bar: bar, Scenario: scenario, What: "first pod bound after, s", Norn: median(found["norn"], first), Limit: median(found["limit"], first), Bound: "0.3 s", Met: median(found["norn"], first) <= 0.3})
	}
	return nil
}

// shared runs a least scheduler that is a program of its own, with the load that it makes itself.
func (b *bench) shared(ctx context.Context, l *load) (rate float64, err error) {
	c, err := start(ctx, shape{nodes: l.nodes})
	if err != nil {
		return 0, err
	}
	defer func() {
		if serr := c.stop(); err == nil {
			err = serr
		}
	}()
	cmd := exec.CommandContext(ctx, b.leastProgram, "-mode", "live", "-n", strconv.Itoa(l.pods), "-gang", strconv.Itoa(l.gang), fmt.Sprintf("-ahead=%v", l.waits))
	cfg := c.env.Config()
	cmd.Env = append(cmd.Environ(), "API="+cfg.Host, "TOKEN="+cfg.BearerToken)
	out, err := cmd.CombinedOutput()
	told := regexp.MustCompile(`bound (\d+)/s`).FindSubmatch(out)
	if err != nil || told == nil {
		return 0, fmt.Errorf("%s: %w\n%s", b.leastProgram, err, out)
	}
	return strconv.ParseFloat(string(told[1]), 64)
}
