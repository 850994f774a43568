package eventlog_test

import (
	"math"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/tenant"
)

// Whatever a log can hold, drawn at random: with small and with extreme values,
// and with text of any letters.

func moments() *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, unit.MaxScaled), rapid.Just[int64](unit.MaxScaled)),
		func(n int64) time.Duration { return time.Duration(n) })
}

func texts() *rapid.Generator[string] {
	return rapid.OneOf(rapid.Just(""), rapid.String(), rapid.SampledFrom([]string{"a", `"\`, "\x00\n\t\x7f", "ä€😀", "</script>"}))
}

func numbers() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Float64Range(0, 2), rapid.Float64Range(0, math.MaxFloat64), rapid.SampledFrom([]float64{0, 1, 1e-300, 1e21, math.SmallestNonzeroFloat64}))
}

func drawReason(t *rapid.T) job.Reason {
	code := job.ReasonCode(rapid.IntRange(0, int(job.Profiled)).Draw(t, "code"))
	if code == job.NoReason {
		return job.Reason{Job: job.None}
	}
	return job.Reason{
		Code: code, Need: rapid.Int32().Draw(t, "need"), Have: rapid.Int32().Draw(t, "have"),
		Job: job.ID(rapid.Int32Range(-1, math.MaxInt32).Draw(t, "for")),
		At:  rapid.OneOf(moments(), rapid.Just(unit.Never)).Draw(t, "at"), Text: texts().Draw(t, "text"),
	}
}

func drawAlloc(t *rapid.T) *cluster.Alloc {
	a := &cluster.Alloc{}
	for range rapid.IntRange(1, 4).Draw(t, "pieces") {
		p := cluster.Piece{
			Node: cluster.NodeID(rapid.Int32Range(0, math.MaxInt32).Draw(t, "node")), Role: uint8(rapid.IntRange(0, job.MaxRoles-1).Draw(t, "role")),
			Tasks: rapid.Int32Range(0, 5).Draw(t, "tasks"), Shares: rapid.Int32Range(0, 5).Draw(t, "shares"),
			CPU: unit.Milli(rapid.Int64Range(0, 1<<40).Draw(t, "cpu")), Memory: unit.Bytes(rapid.Int64Range(0, unit.MaxScaled).Draw(t, "mem")),
		}
		for range p.Shares {
			a.Shares = append(a.Shares, cluster.Share{
				Device:   cluster.DeviceID(rapid.Int32Range(0, math.MaxInt32).Draw(t, "device")),
				Milli:    rapid.SampledFrom([]int32{1000, 1000, 500, 1, 0, 8000, math.MaxInt32}).Draw(t, "milli"),
				Throttle: rapid.SampledFrom([]int32{0, 0, 1, 500, 1000}).Draw(t, "throttle"),
				Batch:    rapid.SampledFrom([]int32{0, 0, 1, 512, math.MaxInt32}).Draw(t, "batch"),
				Memory:   unit.Bytes(rapid.SampledFrom([]int64{0, 0, 1, unit.MaxScaled}).Draw(t, "gpu memory")),
			})
		}
		a.Pieces = append(a.Pieces, p)
	}
	if len(a.Pieces) > 0 {
		a.Beat = cluster.Beat{Period: moments().Draw(t, "period"), Shift: moments().Draw(t, "shift")}
	}
	return a
}

func drawJob(t *rapid.T, id job.ID) *job.Job {
	d := job.GPUs(rapid.IntRange(1, 64).Draw(t, "gpus"))
	if rapid.Bool().Draw(t, "odd") {
		d.Types = "A100|V100"
		d.Roles[0] = job.Role{Name: "worker", Tasks: 3, Min: 2, Max: 5, GPU: 250, GPUMemory: unit.GiB, CPU: 1500, Memory: 3, Slots: "pods=1|rdma=2"}
		d.Roles[1] = job.Role{Name: "ps", Tasks: 2, CPU: 1}
		d.Where, d.Tolerate = "!spot, zone in (a,b)", "*:NoExecute"
		d.Within, d.Prefer = "rack", rapid.Bool().Draw(t, "prefer")
	}
	j := &job.Job{
		ID: id, Key: texts().Draw(t, "key"), Name: texts().Draw(t, "name"), User: texts().Draw(t, "user"), Tenant: texts().Draw(t, "tenant"), Partition: texts().Draw(t, "partition"), App: texts().Draw(t, "app"),
		Submit: moments().Draw(t, "submit"), Demand: &d, Kind: job.Kind(rapid.IntRange(0, 3).Draw(t, "kind")),
		Model: texts().Draw(t, "model"), Backbone: texts().Draw(t, "backbone"), Dataset: texts().Draw(t, "dataset"), Share: rapid.Bool().Draw(t, "share"),
		Batch: rapid.IntRange(0, 1<<40).Draw(t, "batch"), Units: numbers().Draw(t, "units"), Unit: texts().Draw(t, "unit"),
		Priority: rapid.Int32().Draw(t, "priority"), Deadline: moments().Draw(t, "deadline"), Soft: rapid.Bool().Draw(t, "soft"), Estimate: moments().Draw(t, "user's estimate"),
		Stop: job.StopMode(rapid.IntRange(0, 3).Draw(t, "stop")), Retries: rapid.Int32Range(-1, 9).Draw(t, "retries"),
	}
	if rapid.Bool().Draw(t, "hints") {
		j.Hints = &job.Hints{
			UserEstimate: moments().Draw(t, "hint"), Group: texts().Draw(t, "group"), HasRank: true, Rank: -numbers().Draw(t, "rank"),
			Stages: [3]time.Duration{1, 0, 3}, Speed: numbers().Draw(t, "units per second"), QoS: texts().Draw(t, "qos"), Sensitivity: texts().Draw(t, "sensitivity"), Sensitive: true,
			Worth: [4]job.Worth{{By: 5, Value: 2}, {By: 9, Value: -1}}, CPUs: 1500,
			Iteration: 5, Bursts: job.Bursts{{From: 1, To: 2, GBps: 6.25}, {From: 3, To: 5, GBps: 0.1}},
			Epochs: 7, Modes: [job.MaxModes]job.Mode{{Batch: 32, Pace: 1}, {Batch: 64, Pace: 1.5}},
		}
	}
	return j
}

func drawNode(t *rapid.T) *cluster.NodeSpec {
	n := &cluster.NodeSpec{
		Name: texts().Draw(t, "name"), CPU: unit.Milli(rapid.Int64Range(0, 1<<40).Draw(t, "cpu")),
		Memory: unit.Bytes(rapid.Int64Range(0, unit.MaxScaled).Draw(t, "mem")), Domain: cluster.DomainID(rapid.Int32Range(0, 9).Draw(t, "domain")),
		Pool: cluster.PoolID(rapid.Int32Range(0, 9).Draw(t, "pool")), Pooled: rapid.Bool().Draw(t, "pooled"),
		Slots: rapid.SampledFrom([]cluster.Slots{{}, {1}, {0, 0, 3}, {1, 2, 3, 4, 5, cluster.MostSlots}}).Draw(t, "slots"),
	}
	if rapid.Bool().Draw(t, "networked") {
		n.NICs = cluster.NICs{Count: rapid.IntRange(1, cluster.MaxNICs).Draw(t, "adapters"), GBps: 12.5, Latency: 2000}
	}
	if rapid.Bool().Draw(t, "labelled") {
		n.Labels = []label.Label{{Key: "a", Value: ""}, {Key: "zone", Value: "a"}}
		n.Taints = []label.Taint{{Key: "spot", Value: "yes", Effect: label.NoExecute}, {Key: "x/y", Effect: label.PreferNoSchedule}}
	}
	devices := 0
	for i := range rapid.IntRange(0, 3).Draw(t, "groups") {
		count := rapid.IntRange(0, 8).Draw(t, "count")
		devices += count
		n.GPUs = append(n.GPUs, cluster.GPUs{Type: cluster.TypeID(i), Count: count})
	}
	if devices > 0 && rapid.Bool().Draw(t, "linked") {
		n.Links = cluster.NewLinks(devices)
		for i := range devices {
			for k := range i {
				l := cluster.Link{Class: cluster.LinkClass(rapid.IntRange(0, 4).Draw(t, "class")), GBps: numbers().Draw(t, "GB/s")}
				if rapid.Bool().Draw(t, "counted") {
					l.Count, l.Gen = uint8(rapid.IntRange(0, cluster.MaxNVLinks).Draw(t, "NVLinks")), uint8(rapid.IntRange(0, cluster.MaxNVLinkGen).Draw(t, "generation"))
				}
				n.Links.Connect(i, k, l)
			}
		}
	}
	return n
}

// drawEvent draws an event of a kind with what such an event carries, and
// everything else as a reader leaves it.
func drawEvent(t *rapid.T, kind eventlog.Kind) eventlog.Event {
	ev := eventlog.Event{
		Time: moments().Draw(t, "time"), Kind: kind, Job: job.None, Estimate: -1, Speed: 1,
		Reason: job.Reason{Job: job.None}, With: job.None, Node: cluster.None, Device: cluster.None,
	}
	switch kind {
	case eventlog.NodeAdd:
		ev.NodeSpec = drawNode(t)
		return ev
	case eventlog.NodeLabels:
		ev.Node = cluster.NodeID(rapid.Int32Range(0, math.MaxInt32).Draw(t, "node"))
		n := drawNode(t)
		ev.NodeSpec = &cluster.NodeSpec{Labels: n.Labels, Taints: n.Taints}
		return ev
	case eventlog.NodeSet:
		ev.Node = cluster.NodeID(rapid.Int32Range(0, math.MaxInt32).Draw(t, "node"))
		ev.Health = cluster.Health(rapid.IntRange(0, 2).Draw(t, "health"))
		ev.Power = cluster.Power(rapid.IntRange(0, 2).Draw(t, "power"))
		return ev
	case eventlog.Foreign:
		ev.Node = cluster.NodeID(rapid.Int32Range(0, math.MaxInt32).Draw(t, "node"))
		ev.Foreign = &cluster.Foreign{
			CPU: unit.Milli(rapid.Int64Range(0, 1<<40).Draw(t, "cpu")), Memory: unit.Bytes(rapid.Int64Range(0, unit.MaxScaled).Draw(t, "mem")),
			Slots: rapid.SampledFrom([]cluster.Slots{{}, {1}, {0, 0, 3}}).Draw(t, "slots"),
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "GPUs") {
			ev.Foreign.GPUs = append(ev.Foreign.GPUs, cluster.Share{Device: cluster.DeviceID(i), Milli: rapid.Int32Range(0, 8000).Draw(t, "milli"), Memory: unit.Bytes(i)})
		}
		return ev
	case eventlog.Device:
		ev.Device = cluster.DeviceID(rapid.Int32Range(0, math.MaxInt32).Draw(t, "device"))
		ev.Broken = rapid.Bool().Draw(t, "broken")
		return ev
	case eventlog.Used:
		ev.Device = cluster.DeviceID(rapid.Int32Range(0, math.MaxInt32).Draw(t, "device"))
		ev.Use, ev.Memory = numbers().Draw(t, "use"), unit.Bytes(rapid.Int64Range(0, unit.MaxScaled).Draw(t, "mem"))
		return ev
	case eventlog.Learnt:
		ev.Pair = perf.Pair{Job: texts().Draw(t, "of"), Beside: texts().Draw(t, "beside"), Type: texts().Draw(t, "type")}
		ev.Speed = rapid.SampledFrom([]float64{1, 0.5, 0.001, math.SmallestNonzeroFloat64}).Draw(t, "factor")
		return ev
	case eventlog.Recall:
		ev.Reason = job.Reason{Code: job.TakenBack, Need: rapid.Int32Range(0, 9).Draw(t, "wanted"), At: moments().Draw(t, "by"), Job: job.None, Text: texts().Draw(t, "lender")}
		return ev
	}
	ev.Job = job.ID(rapid.Int32Range(0, math.MaxInt32).Draw(t, "job"))
	switch kind {
	case eventlog.Submit:
		ev.Spec = drawJob(t, ev.Job)
		ev.Estimate = rapid.OneOf(moments(), rapid.Just[time.Duration](-1)).Draw(t, "estimate")
	case eventlog.Measured:
		ev.Measured = drawMeasured(t)
	case eventlog.Estimate:
		ev.Reason = drawReason(t)
		ev.Estimate = rapid.OneOf(moments(), rapid.Just[time.Duration](-1)).Draw(t, "estimate")
	case eventlog.Start, eventlog.Move, eventlog.Resize, eventlog.Assign:
		if kind != eventlog.Start || rapid.Bool().Draw(t, "not assigned before") {
			ev.Alloc = drawAlloc(t)
		}
		if kind != eventlog.Assign {
			ev.Delay, ev.Speed = moments().Draw(t, "delay"), numbers().Draw(t, "speed")
			ev.Profile = kind == eventlog.Start && rapid.Bool().Draw(t, "profile")
		}
		if kind == eventlog.Move {
			ev.Reason = drawReason(t)
		}
	case eventlog.Merge:
		ev.How, ev.Kept = job.Merge(rapid.IntRange(0, 2).Draw(t, "how")), moments().Draw(t, "kept")
		if ev.How != job.Apart {
			ev.With = job.ID(rapid.Int32Range(0, math.MaxInt32).Draw(t, "with"))
		}
	case eventlog.Preempt, eventlog.Evict, eventlog.Fail:
		ev.Kept, ev.AtOnce, ev.Reason = moments().Draw(t, "kept"), rapid.Bool().Draw(t, "at once"), drawReason(t)
	case eventlog.Hold, eventlog.Wait:
		ev.Reason = drawReason(t)
	case eventlog.End:
		ev.Outcome = job.Phase(rapid.IntRange(int(job.Done), int(job.Cancelled)).Draw(t, "outcome"))
	case eventlog.Speed:
		ev.Speed = numbers().Draw(t, "speed")
	case eventlog.Progress:
		ev.Kept = moments().Draw(t, "done")
	case eventlog.Memo:
		ev.Note = drawNote(t)
	case eventlog.Config:
		ev.Reported = job.Reported{
			Batch: rapid.Int32Range(0, math.MaxInt32).Draw(t, "reported batch"), Noise: numbers().Draw(t, "noise"),
			Epoch: rapid.Int32Range(0, math.MaxInt32).Draw(t, "epoch"), Pace: rapid.SampledFrom([]float64{0, 1, 2.5, 1e9}).Draw(t, "pace"),
		}
	}
	return ev
}

// drawSettings draws names without = and any values.
func drawSettings(t *rapid.T, what string) []eventlog.Setting {
	var all []eventlog.Setting
	for range rapid.IntRange(0, 3).Draw(t, what) {
		all = append(all, eventlog.Setting{Name: strings.ReplaceAll(texts().Draw(t, "name"), "=", "-"), Value: texts().Draw(t, "value")})
	}
	return all
}

func drawHeader(t *rapid.T) eventlog.Header {
	h := eventlog.Header{
		World: texts().Draw(t, "world"), Policy: texts().Draw(t, "policy"), Settings: drawSettings(t, "settings"),
		Conditions: drawSettings(t, "conditions"),
		Estimate:   texts().Draw(t, "estimates"), Trace: texts().Draw(t, "trace"), Cluster: texts().Draw(t, "cluster"),
		Seed: rapid.Uint64().Draw(t, "seed"), HalfLife: moments().Draw(t, "half-life"), Pools: rapid.SliceOfN(texts(), 0, 3).Draw(t, "pools"),
		Slots: rapid.SampledFrom([][]string{nil, {"rdma"}, {"rdma", "pods"}}).Draw(t, "slots"),
	}
	if rapid.Bool().Draw(t, "dated") {
		h.Origin = time.Unix(rapid.Int64Range(-1e9, 1e10).Draw(t, "day"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
	}
	for range rapid.IntRange(0, 2).Draw(t, "types") {
		h.Types = append(h.Types, cluster.GPUType{Name: texts().Draw(t, "type"), Memory: unit.Bytes(rapid.Int64Range(0, unit.MaxScaled).Draw(t, "mem")), Speed: numbers().Draw(t, "speed"), Host: rapid.Bool().Draw(t, "host")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "domains") {
		h.Domains = append(h.Domains, eventlog.Domain{Level: texts().Draw(t, "level"), Name: texts().Draw(t, "place"), Parent: cluster.DomainID(rapid.Int32Range(0, 9).Draw(t, "parent")), Uplink: rapid.SampledFrom([]cluster.Uplink{{}, {GBps: 400}, {GBps: 1.5, Latency: 900}}).Draw(t, "uplink")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "tenants") {
		e := tenant.Tenant{
			Name: texts().Draw(t, "tenant"), Parent: tenant.ID(rapid.Int32Range(0, 9).Draw(t, "above")), Weight: numbers().Draw(t, "weight"),
			Guarantee: unit.Milli(rapid.Int64Range(0, 1<<40).Draw(t, "guarantee")), Limit: tenant.Unlimited,
			Cells: rapid.SampledFrom([]tenant.Cells{"", "node=2", "V100:4=1, @r/n 1"}).Draw(t, "cells"),
		}
		if rapid.Bool().Draw(t, "limited") {
			e.Limit = unit.Milli(rapid.Int64Range(1, 1<<40).Draw(t, "limit"))
		}
		h.Tenants = append(h.Tenants, e)
	}
	return h
}

// drawNote is a note of a policy, or none.
func drawNote(t *rapid.T) *job.Note {
	if rapid.IntRange(0, 3).Draw(t, "noted") == 0 {
		return nil
	}
	text := strconv.AppendInt([]byte(`{"with":`), rapid.Int64().Draw(t, "number"), 10)
	text = append(job.AppendRef(append(text, `,"beside":`...), job.ID(rapid.Int32Range(-1, 9).Draw(t, "beside"))), '}')
	return job.NewNote(rapid.SampledFrom([]string{"gandiva", "ymir"}).Draw(t, "kind of note"), text)
}

// drawMeasured is what was measured of a job.
func drawMeasured(t *rapid.T) *perf.Reading {
	m := &perf.Reading{When: perf.When(rapid.IntRange(0, 2).Draw(t, "when"))}
	m.Setup = perf.Setup{
		Tasks: rapid.IntRange(0, 1<<30).Draw(t, "tasks"), Type: texts().Draw(t, "type"), Spread: rapid.Bool().Draw(t, "spread"),
		CPU: unit.Milli(rapid.Int64Range(0, 1<<40).Draw(t, "cpu")), Memory: unit.Bytes(rapid.Int64Range(0, unit.MaxScaled).Draw(t, "mem")),
		Batch: rapid.IntRange(0, 1<<30).Draw(t, "batch"), How: job.Merge(rapid.IntRange(0, 2).Draw(t, "how")),
	}
	if m.Setup.How != job.Apart {
		m.Setup.With = texts().Draw(t, "with")
	}
	for range rapid.IntRange(0, 3).Draw(t, "beside") {
		m.Setup.Beside = append(m.Setup.Beside, texts().Draw(t, "sort"))
	}
	for range rapid.IntRange(0, 3).Draw(t, "seats") {
		m.Setup.Seats = append(m.Setup.Seats, perf.Seat{Node: texts().Draw(t, "node"), Index: rapid.IntRange(0, 100).Draw(t, "seat")})
	}
	for range rapid.IntRange(0, perf.MaxValues).Draw(t, "values") {
		m.Add(rapid.SampledFrom([]string{"loss", "rate", "samples", "ä€😀", "embedding"}).Draw(t, "name"), rapid.SliceOfN(numbers(), 1, perf.MaxSeries).Draw(t, "series")...)
	}
	return m
}
