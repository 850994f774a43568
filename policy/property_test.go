package policy_test

import (
	"testing"

	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/policy/defrag"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// TestProperties runs every policy of the table, at its defaults and at the
// settings that change its course, over random worlds of every shape.
func TestProperties(t *testing.T) {
	settings := map[string][]map[string]string{
		"titan":        {{"merge": "false", "interval": "30s", "stay": "0"}, {"interval": "5s", "filter": "0"}},
		"ymir":         {{"exact": "0", "onevent": "false", "stay": "0.1"}},
		"optimus":      {{"interval": "45s", "place": "consolidated"}},
		"pollux":       {{"interval": "10s", "population": "12", "generations": "8", "p": "1", "avoid": "false"}, {"interval": "20s", "population": "6", "generations": "3", "delay": "0s", "explore": "0"}},
		"sia":          {{"interval": "10s", "p": "1", "profiles": "none"}, {"interval": "20s", "explore": "0", "delay": "0s", "lambda": "3", "profiles": "oracle"}},
		"shockwave":    {{"round": "10s", "window": "6", "replan": "3"}},
		"astraea":      {{"term": "15s"}},
		"allox":        {{"alpha": "1", "limit": "2"}, {"alpha": "0.4", "grow": "false", "limit": "0", "place": "pack"}},
		"gandiva":      {{"quantum": "10s", "interval": "10s", "measure": "10s"}, {"quantum": "5s", "pack": "false", "spread": "false", "defrag": "0.5", "weights": "true", "patience": "10s", "interval": "10s"}},
		"crius":        {{"period": "10s", "depth": "1", "largest": "4", "overtake": "false"}, {"period": "20s", "scale": "false", "moves": "0", "deadlines": "true"}, {"period": "5s", "types": "false", "depth": "4", "deadlines": "true"}},
		"cassini":      {{"host": "fifo"}, {"host": "pollux", "score": "least"}, {"host": "tiresias", "candidates": "3", "precision": "10"}, {"host": "srsf", "step": "5ms"}},
		"chronus":      {{"lease": "20s"}, {"lease": "10s", "objective": "maximise", "refused": "drop", "steps": "50"}},
		"easyscale":    {{"mix": "false", "interval": "10s"}, {"waste": "1", "interval": "20s"}},
		"elasticflow":  {{"refused": "run", "largest": "4", "replans": "1"}},
		"gandiva_fair": {{"quantum": "10s", "split": "job", "by": "user"}},
		"afs":          {{"regulate": "false"}},
		"afs-p":        {{"unit": "20s"}},
		"themis":       {{"term": "20s"}, {"term": "15s", "variant": "greedy"}, {"term": "15s", "rest": "worst"}},
		"hived":        {{"lazy": "false", "together": "false"}, {"guarantee": "quota"}},
		"fifo":         {{"mode": "skip"}, {"mode": "easy"}, {"mode": "easy", "reservations": "3"}, {"priority": "true", "place": "consolidated"}},
		"drf":          {{"order": "sjf", "grace": "20s"}, {"order": "priority", "block": "true", "minrun": "30s"}, {"reclaim": "none", "place": "consolidated"}},
		"maxmin": {
			{"order": "sjf", "grace": "20s", "victims": "newest"}, {"order": "priority", "block": "true", "minrun": "30s", "victims": "service"},
			{"reclaim": "guarantee", "divide": "all", "place": "consolidated", "victims": "checkpoint"}, {"reclaim": "none"},
		},
		"sjf": {{"block": "true"}, {"by": "service"}},
		"las": {{"1d": "true", "round": "40s"}, {"victims": "checkpoint"}}, "srtf": {{"victims": "checkpoint"}},
		"qssf": {
			{"lambda": "0.3", "refresh": "20s", "trees": "3", "leaf": "1", "rows": "4", "growth": "0"},
			{"refresh": "30s", "trees": "2", "leaf": "1", "block": "false", "place": "pack"},
			{"predict": "given", "age": "60s", "refresh": "30s"},
		},
		"pai": {{"by": "estimate", "place": "worst-fit", "reserve": "B"}, {"by": "user", "reserve": "B", "overflow": "true", "heavy": "0.5"}, {"by": "submit", "reserve": "A", "heavy-gang": "2"}},
		"gavel": {
			{"round": "10s", "reset": "20s"}, {"objective": "ftf", "round": "10s", "reset": "0s"}, {"objective": "hierarchical", "round": "20s", "reset": "0s", "aware": "false", "fifo": "true"},
			{"objective": "makespan", "round": "10s", "reset": "30s", "idle": "false"}, {"packed": "true", "gangs": "true", "round": "10s", "reset": "20s"},
		},
		"pal": {
			{"order": "las", "round": "10s", "penalty": "1.5"}, {"order": "srtf", "round": "15s", "place": "pm-first", "fill": "false"},
			{"place": "packed", "sticky": "true", "order": "las", "round": "20s"}, {"place": "random", "round": "30s"},
		},
		"a-srpt":         {{"release": "at-once"}, {"predict": "learnt", "refresh": "20s", "trees": "3", "leaf": "1", "skip": "true"}, {"theta": "1", "tau": "0.5"}},
		"bytegnn":        {{"goal": "even", "place": "consolidated"}, {"least": "0"}},
		"mapa":           {{"rule": "greedy", "sensitive": "all", "skip": "true"}, {"rule": "topo-aware", "group": "2", "place": "consolidated"}, {"sensitive": "none", "pattern": "clique", "place": "worst-fit"}},
		"mast":           {{"preempt": "false", "place": "consolidated"}, {"cluster": "rack", "region": "zone"}, {"region": "none", "place": "best-fit"}},
		"topology-aware": {{"rule": "best-fit", "postpone": "false"}, {"least": "0.9", "patience": "40s", "weights": "spread", "place": "pack"}, {"least": "0.5", "cost": "loss", "weights": "interference", "patience": "0s"}, {"rule": "first", "skip": "false"}},
		"philly":         {{"reclaim-at": "0", "acquire": "5s", "backoff": "5s", "attempts": "1"}, {"lend": "false", "locality": "rack"}, {"relax-to": "server", "reclaim-at": "0.5"}},
		"slurm":          {{"preempt": "partition", "partitions": "a:1:3,b:5:2", "partition": "100", "fair": "50", "age": "5", "period": "5s"}, {"preempt": "partition", "partitions": "b:1:2", "exempt": "15s", "mode": "strict"}, {"limits": ":9:8:2:8", "fair": "10", "period": "5s", "reservations": "20"}, {"limits": ":8", "mode": "skip", "preempt": "partition", "partitions": "b:1:2"}, {"accounts": "root:9:4:2:8", "preempt": "partition", "partitions": "b:1:2", "exempt": "10s"}},
		"rmixer":         {{"batch-window": "0", "job-policy": "dyType", "device-policy": "dyMemo"}, {"job-policy": "mps", "gpu-workers": "2"}},
		"tiresias":       {{"limits": "200,600", "promote": "1"}, {"limits": "60", "victims": "checkpoint"}, {"rank": "gittins", "limits": "200,600"}, {"1d": "true", "limits": "60", "promote": "2", "place": "consolidated"}},
	}
	// busy are those under which nobody gains by waiting beside idle GPUs, so that none does.
	// Left out are who waits for the head of a queue, for better GPUs, for a job to learn from
	// or for a round, and where limits or the cores beside a GPU are in the way.
	busy := map[string]bool{
		"sjf": true, "gavel": true, "pop": true, "themis": true, "gandiva_fair": true, "shockwave": true, "muri-s": true, "muri-l": true,
		"muxflow": true, "bsbf": true, "synergy": true, "iadeep": true, "gimbal": true, "fgd": true,
	}
	// outlive are those that have jobs go on, and grow again, that have lost a node.
	outlive := map[string]bool{"lyra": true, "freetrain": true, "sia": true, "pollux": true, "afs": true, "easyscale": true}
	shapes := map[string]simtest.Shape{
		"plain":    {},
		"types":    {Types: true},
		"parts":    {Parts: true},
		"slots":    {Parts: true, Slots: true, Costs: true},
		"others":   {Parts: true, Costs: true, Others: true},
		"costs":    {Costs: true},
		"failures": {Costs: true, Failures: true},
		"tenants":  {Tenants: true, Costs: true},
		"pools":    {Pools: true},
		"adapts":   {Adapts: true, Costs: true},
		"operated": {Costs: true, Operated: true},
		"due":      {Due: true, Costs: true, Failures: true},
		"sliced":   {Due: true, Types: true, Costs: true, Failures: true},
		"lent":     {Costs: true, Lent: true, Operated: true},
		"where":    {Where: true},
		"apart":    {Where: true, Types: true, Parts: true, Costs: true, Failures: true, Operated: true},
		"linked":   {Linked: true, Parts: true, Costs: true, Failures: true, Operated: true},
		"bursts":   {Bursts: true, Types: true, Costs: true, Failures: true, Operated: true},
		"regions":  {Where: true, Regions: true, Types: true, Tenants: true, Costs: true, Failures: true, Operated: true},
		"both":     {Types: true, Failures: true, Operated: true},
		"asleep":   {Types: true, Sleeps: true, Costs: true, Failures: true, Operated: true},
		"moves":    {Costs: true, Failures: true, Operated: true},
		"still":    {Types: true, Still: true, Costs: true, Operated: true},
	}
	// starving are those that choose devices by themselves and do not look at counted
	// resources: a job may wait for ever for a place on a node that is short of them.
	starving := map[string]bool{"allox": true, "gandiva": true, "pollux": true, "rmixer": true, "synergy": true, "iadeep": true, "fgd": true}
	// mechanics are shapes that try the ledger and the plan rather than settings of a policy.
	mechanics := map[string]bool{"slots": true, "others": true, "where": true, "apart": true, "asleep": true}
	simtest.FewDraws(t)
	for _, e := range policy.Table() {
		for i, set := range append([]map[string]string{nil}, settings[e.Name]...) {
			build := func() (sched.Policy, error) {
				c := e.New()
				for k, v := range set {
					if err := c.Params().Set(k, v); err != nil {
						return nil, err
					}
				}
				return c.Policy()
			}
			moving := func() (sched.Policy, error) { return moves(build()) }
			for name, shape := range shapes {
				if shape.Slots && starving[e.Name] || i > 0 && mechanics[name] || name == "sliced" && !e.Acts.Has(policy.Resizes) || shape.Linked && e.Name != "mapa" && e.Name != "topology-aware" || shape.Bursts && e.Name != "cassini" && e.Name != "fifo" || shape.Regions && e.Name != "mast" && e.Name != "fifo" {
					continue
				}
				if name == "moves" && (e.Acts.Has(policy.Shares) || set["packed"] == "true" || i > 0 && set["place"] == "") {
					continue
				}
				shape.Resizes = shape.Lent && outlive[e.Name]
				shape.Shared = e.Acts.Has(policy.Shares) || set["packed"] == "true"
				shape.Busy = busy[e.Name] && set["idle"] == "" && set["block"] == "" && !shape.Tenants && !shape.Parts && !shape.Sleeps
				t.Run(e.Name+string(rune('0'+i))+"/"+name, func(t *testing.T) {
					t.Parallel()
					if shape.Pools {
						simtest.Properties(t, shape, func() (sched.Policy, error) { return policy.Partitioned(build), nil })
						return
					}
					if name == "moves" {
						simtest.Properties(t, shape, moving)
						return
					}
					simtest.Properties(t, shape, build)
				})
			}
		}
	}
}

// moves puts defragmentation around a policy, which moves jobs at any price.
func moves(p sched.Policy, err error) (sched.Policy, error) {
	if err != nil {
		return nil, err
	}
	return defrag.Wrap(p, defrag.Config{Margin: 0.01, Most: 4}), nil
}
