package kube

import (
	"cmp"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/live/planner"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/policy/defrag"
	"github.com/norn-scheduler/norn/tenant"
)

// Options say how Norn runs in a cluster.
type Options struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface // for kinds that a cluster need not have, such as Queues; nil: these are not looked for
	Name    string            // of the cluster, for logs

	Scheduler string          // the schedulerName by which pods ask for this Norn; empty: names.Scheduler
	Nodes     labels.Selector // of the nodes that are for it; nil: all
	State     string          // folder of the event log and of the history; it may be empty, and may be lost

	Policy    experiment.Choice
	Defrag    *defrag.Config               // moves Jobs together for gangs that would wait; nil: nobody does
	Tenants   func() (*tenant.Tree, error) // nil: nobody has a guarantee or a limit
	Estimator predict.Estimator            // nil: users' estimates alone
	Estimates string                       // its name, for logs
	Speeds    perf.Typed                   // what is believed of speeds; nil: all GPUs are alike

	Levels   convert.Levels // of the topology; nil: the usual ones
	Origin   time.Time      // of time, which stays the same however often Norn is started
	Stop     job.StopMode   // of Jobs that do not say how they may be stopped
	NodeLost time.Duration  // for which a node does not answer before its jobs go elsewhere; 0: 5 minutes
	Workers  int            // writes at a time; 0: 32
	// Rediscover is how often kinds are looked for whose definitions have come later, and
	// Summary how often it is told how Queues stand. 0: 30 seconds, 1 minute.
	Rediscover, Summary time.Duration
	// Gather is for how long a gang that waits may get more pods to begin with. 0: 10 seconds.
	Gather time.Duration

	Patience live.Patience // with jobs that end badly again and again
	Compact  int           // events after which a new log is begun; 0: 50,000
	Recent   int           // ended jobs that are kept in memory; 0: 2,000

	// Leads tells whether this process may still write: it holds the Lease, and has renewed it
	// a short while ago. nil: nobody else can lead.
	Leads func() bool
	// Timeout is how long a write may take: no longer than the Lease lasts when Leads is false.
	// 0: 5 seconds.
	Timeout time.Duration

	// Planner answers what-ifs; nil: nobody does.
	Planner *planner.Planner
	Version string
	Log     *slog.Logger
}

// fill sets what was left out.
func (o *Options) fill() {
	o.NodeLost = cmp.Or(o.NodeLost, 5*time.Minute)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.Workers = cmp.Or(o.Workers, 32)
	o.Rediscover = cmp.Or(o.Rediscover, 30*time.Second)
	o.Summary = cmp.Or(o.Summary, time.Minute)
	o.Gather = cmp.Or(o.Gather, 10*time.Second)
	o.Compact = cmp.Or(o.Compact, 50_000)
	o.Recent = cmp.Or(o.Recent, 2_000)
	if o.Patience == (live.Patience{}) {
		o.Patience = live.Patience{CrashTimes: 5, CrashWithin: 10 * time.Second, SaveFailures: 3}
	}
	o.Scheduler = cmp.Or(o.Scheduler, names.Scheduler)
	if o.Nodes == nil {
		o.Nodes = labels.Everything()
	}
	if o.Levels == nil {
		o.Levels = convert.DefaultLevels()
	}
	if o.Tenants == nil {
		o.Tenants = func() (*tenant.Tree, error) { return tenant.NewTree(0), nil }
	}
	if o.Estimator == nil {
		o.Estimator, o.Estimates = predict.User{}, "user"
	}
	if o.Speeds == nil {
		o.Speeds = perf.Analytic{Scaling: 1, Spread: 1}
	}
	if o.Leads == nil {
		o.Leads = func() bool { return true }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}
