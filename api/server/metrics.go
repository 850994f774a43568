package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/norn-scheduler/norn/api"
)

// counts is what the server counts of itself.
type counts struct {
	requests *prometheus.CounterVec
	others   []prometheus.Collector
}

func newCounts(l *limits) *counts {
	conns := func(pick func(open int, refused, shed uint64) float64) func() float64 {
		return func() float64 { return pick(l.count()) }
	}
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "norn_http_requests_total", Help: "Requests that were answered, by status.",
	}, []string{"code"})
	return &counts{requests: requests, others: []prometheus.Collector{
		requests,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "norn_http_connections", Help: "Open connections."},
			conns(func(open int, _, _ uint64) float64 { return float64(open) })),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "norn_http_connections_refused_total", Help: "Connections that there was no room for."},
			conns(func(_ int, refused, _ uint64) float64 { return float64(refused) })),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "norn_http_connections_shed_total", Help: "Connections without a request that were closed to make room."},
			conns(func(_ int, _, shed uint64) float64 { return float64(shed) })),
	}}
}

// metricsRoute serves what is measured, for Prometheus.
func (s *Server) metricsRoute() error {
	own := prometheus.NewRegistry()
	all := append([]prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}, s.counts.others...)
	for _, c := range all {
		if err := own.Register(c); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	s.api.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "metrics", Method: http.MethodGet, Path: "/metrics", Tags: []string{tagDaemon}, Summary: "What is measured, for Prometheus",
		Security:  []map[string][]string{{}, {"caller": {}}},
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: textContent("text/plain")}},
	})
	m, scrapes := newMeasures(s.Version), make(chan struct{}, metricsQueue)
	s.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		select {
		case scrapes <- struct{}{}:
			defer func() { <-scrapes }()
		default:
			w.(*answer).problem(http.StatusServiceUnavailable, "too many scrapes at once: try again")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), metricsTime)
		defer cancel()
		present, err := s.Backend.Metrics(ctx)
		backend := prometheus.NewRegistry()
		if err == nil {
			err = backend.Register(collector{m, &present})
		}
		if err != nil {
			w.(*answer).problem(s.told(requestOf(r.Context()), err))
			return
		}
		promhttp.HandlerFor(prometheus.Gatherers{own, backend}, promhttp.HandlerOpts{
			ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
		}).ServeHTTP(w, r)
	})
	return nil
}

// metric is one measure, and how it is taken from what the backend tells.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	take func(m *Metrics, out func(v float64, labels ...string))
}

// histogram is one distribution.
type histogram struct {
	desc *prometheus.Desc
	take func(*Metrics) Histogram
}

// measures are all that the backend tells.
type measures struct {
	metrics    []metric
	histograms []histogram
}

func newMeasures(version string) *measures {
	all := append(totals(), machine()...)
	all = append(append(append(all, jobs(version)...), devices()...), nodes()...)
	return &measures{metrics: all, histograms: []histogram{
		{desc("norn_queue_wait_seconds", "From the submission of a job to its first start."), func(m *Metrics) Histogram { return m.Starts }},
		{desc("norn_decision_seconds", "Time that one decision of the policy took."), func(m *Metrics) Histogram { return m.Decisions }},
		{desc("norn_launch_seconds", "From the decision to start a job to its processes running."), func(m *Metrics) Histogram { return m.Launches }},
	}}
}

// collector has what the backend told for one scrape.
type collector struct {
	*measures
	told *Metrics
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe names all metrics.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		out <- m.desc
	}
	for _, h := range c.histograms {
		out <- h.desc
	}
}

// Collect gives out what the backend told.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, k := range c.metrics {
		k.take(c.told, func(v float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(k.desc, k.kind, v, labels...)
		})
	}
	for _, h := range c.histograms {
		d := h.take(c.told)
		buckets := make(map[float64]uint64, len(d.Bounds))
		for i, bound := range d.Bounds[:min(len(d.Bounds), len(d.Counts))] {
			buckets[bound] = d.Counts[i]
		}
		out <- prometheus.MustNewConstHistogram(h.desc, d.Count, d.Sum, buckets)
	}
}

// gauge and counter are metrics without labels.
func gauge(name, help string, take func(*Metrics) float64) metric {
	return metric{desc(name, help), prometheus.GaugeValue, func(m *Metrics, out func(float64, ...string)) { out(take(m)) }}
}

func counter(name, help string, take func(*Metrics) float64) metric {
	return metric{desc(name, help), prometheus.CounterValue, func(m *Metrics, out func(float64, ...string)) { out(take(m)) }}
}

// jobs are the metrics of the queue.
func jobs(version string) []metric {
	return []metric{
		{desc("norn_build_info", "Version of Norn; always 1.", "version"), prometheus.GaugeValue, func(_ *Metrics, out func(float64, ...string)) {
			out(1, version)
		}},
		{desc("norn_jobs", "Jobs that have not ended, by state.", "state"), prometheus.GaugeValue, func(m *Metrics, out func(float64, ...string)) {
			for _, s := range []api.State{api.Held, api.Waiting, api.Assigned, api.Running, api.Stopping} {
				out(float64(m.ByState[s]), string(s))
			}
		}},
		{desc("norn_tenant_gpus_held", "GPUs that jobs of a tenant hold.", "tenant"), prometheus.GaugeValue, byTenant(func(t api.Tenant) float64 { return t.Allocated })},
		{desc("norn_tenant_gpus_guaranteed", "GPUs that a tenant gets back whenever it asks.", "tenant"), prometheus.GaugeValue, byTenant(func(t api.Tenant) float64 { return t.Guarantee })},
		{desc("norn_tenant_jobs_waiting", "Jobs of a tenant that wait.", "tenant"), prometheus.GaugeValue, byTenant(func(t api.Tenant) float64 { return float64(t.Waiting) })},
		{desc("norn_tenant_usage_gpu_seconds", "Decayed usage of a tenant.", "tenant"), prometheus.GaugeValue, byTenant(func(t api.Tenant) float64 { return t.Usage * 3600 })},
		gauge("norn_troubles", "What is wrong, counted; norn status tells it.", func(m *Metrics) float64 { return float64(len(m.Status.Trouble)) }),
		gauge("norn_log_bytes", "Size of the present event log.", func(m *Metrics) float64 { return float64(m.LogBytes) }),
	}
}

func byTenant(take func(api.Tenant) float64) func(*Metrics, func(float64, ...string)) {
	return func(m *Metrics, out func(float64, ...string)) {
		for _, t := range m.Status.Tenants {
			out(take(t), t.Name)
		}
	}
}

// totals are the metrics that only grow.
func totals() []metric {
	return []metric{
		counter("norn_jobs_submitted_total", "Jobs that were submitted.", func(m *Metrics) float64 { return float64(m.Totals.Submitted) }),
		{desc("norn_jobs_ended_total", "Jobs that have ended, by outcome.", "outcome"), prometheus.CounterValue, func(m *Metrics, out func(float64, ...string)) {
			out(float64(m.Totals.Done), string(api.Done))
			out(float64(m.Totals.Failed), string(api.Failed))
			out(float64(m.Totals.Cancelled), string(api.Cancelled))
		}},
		counter("norn_starts_total", "Runs that were started.", func(m *Metrics) float64 { return float64(m.Totals.Starts) }),
		counter("norn_preemptions_total", "Runs that were stopped for other jobs.", func(m *Metrics) float64 { return float64(m.Totals.Preemptions) }),
		counter("norn_failures_total", "Runs that failed.", func(m *Metrics) float64 { return float64(m.Totals.Failures) }),
		counter("norn_evictions_total", "Runs that lost their devices.", func(m *Metrics) float64 { return float64(m.Totals.Evictions) }),
		counter("norn_gpu_seconds_total", "GPUs times the time that jobs held them.", func(m *Metrics) float64 { return m.Totals.GPUSeconds }),
		counter("norn_lost_gpu_seconds_total", "Of that, held in vain: in starts and stops, and for work that had to be done twice.", func(m *Metrics) float64 { return m.Totals.LostGPUSeconds }),
		counter("norn_log_events_total", "Events that were written to the log.", func(m *Metrics) float64 { return float64(m.Events) }),
	}
}

// machine are the metrics of the machine as a whole.
func machine() []metric {
	flag := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	return []metric{
		gauge("norn_gpus", "GPUs, or declared slots, of the machine.", func(m *Metrics) float64 {
			return float64(len(m.Node.Devices)) + sum(m.Nodes, func(n *api.Node) float64 { return n.GPUs })
		}),
		gauge("norn_gpus_held", "Of those, how many are held by jobs, whole or in part.", func(m *Metrics) float64 {
			n := 0
			for _, d := range m.Node.Devices {
				if len(d.Jobs) > 0 {
					n++
				}
			}
			return float64(n) + sum(m.Nodes, func(n *api.Node) float64 { return n.GPUsAllocated })
		}),
		gauge("norn_gpus_broken", "Of those, how many take no new work.", func(m *Metrics) float64 {
			n := 0
			for _, d := range m.Node.Devices {
				if d.Broken {
					n++
				}
			}
			return float64(n) + sum(m.Nodes, func(n *api.Node) float64 { return n.GPUsBroken })
		}),
		gauge("norn_cpu_cores", "CPU cores of the machine.", func(m *Metrics) float64 { return m.Node.CPUs }),
		gauge("norn_cpu_cores_held", "CPU cores that jobs asked for and hold.", func(m *Metrics) float64 { return m.Node.CPUsAllocated }),
		gauge("norn_memory_bytes", "Main memory of the machine.", func(m *Metrics) float64 { return float64(m.Node.Memory) }),
		gauge("norn_memory_held_bytes", "Main memory that jobs asked for and hold.", func(m *Metrics) float64 { return float64(m.Node.MemAllocated) }),
		gauge("norn_disk_size_bytes", "Size of the disk that holds Norn's state.", func(m *Metrics) float64 { return float64(m.Node.Disk.Size) }),
		gauge("norn_disk_free_bytes", "Free space of that disk.", func(m *Metrics) float64 { return float64(m.Node.Disk.Free) }),
		gauge("norn_disk_low", "1 when too little is free, and no new work is taken or started.", func(m *Metrics) float64 { return flag(m.Node.Disk.Low) }),
		gauge("norn_drained", "1 when the machine takes no new work.", func(m *Metrics) float64 { return flag(m.Node.Health != "up") }),
	}
}

// devices are the metrics of each GPU; what is measured is left out where it is
// not.
func devices() []metric {
	each := func(name, help string, measured bool, take func(api.Device) float64) metric {
		return metric{desc(name, help, "device", "type"), prometheus.GaugeValue, func(m *Metrics, out func(float64, ...string)) {
			for _, d := range m.Node.Devices {
				if d.Measured || !measured {
					out(take(d), d.Name, d.Type)
				}
			}
		}}
	}
	return []metric{
		each("norn_device_jobs", "Jobs that hold the device.", false, func(d api.Device) float64 { return float64(len(d.Jobs)) }),
		each("norn_device_slowness_ratio", "How many times as long jobs take on the device as on a usual one of its type; 1: nothing is known against it.", false, func(d api.Device) float64 { return max(1, d.Slow) }),
		each("norn_device_memory_bytes", "Memory of the device.", false, func(d api.Device) float64 { return float64(d.Memory) }),
		each("norn_device_memory_used_bytes", "Memory of the device that is in use, as measured.", true, func(d api.Device) float64 { return float64(d.Used) }),
		each("norn_device_utilization_ratio", "How busy the device is, 0 to 1, as measured.", true, func(d api.Device) float64 { return d.Util }),
		each("norn_device_temperature_celsius", "Temperature of the device, as measured.", true, func(d api.Device) float64 { return d.Celsius }),
		each("norn_device_power_watts", "Power that the device draws, as measured.", true, func(d api.Device) float64 { return d.Watts }),
	}
}

// sum adds something up over nodes.
func sum(list []api.Node, take func(*api.Node) float64) float64 {
	total := 0.0
	for i := range list {
		total += take(&list[i])
	}
	return total
}

// mostNodes is up to how many nodes each has metrics of its own.
const mostNodes = 256

// nodes are the metrics of a cluster of several nodes: by state and GPU type, and of each
// node where they are not too many.
func nodes() []metric {
	byType := func(name, help string, take func(*api.Node) float64) metric {
		return metric{desc(name, help, "type"), prometheus.GaugeValue, func(m *Metrics, out func(float64, ...string)) {
			total := map[string]float64{}
			for i := range m.Nodes {
				if n := &m.Nodes[i]; n.GPUs > 0 {
					total[n.Type] += take(n)
				}
			}
			for t, v := range total {
				out(v, t)
			}
		}}
	}
	each := func(name, help string, take func(*api.Node) float64) metric {
		return metric{desc(name, help, "node"), prometheus.GaugeValue, func(m *Metrics, out func(float64, ...string)) {
			for i := range m.Nodes {
				if n := &m.Nodes[i]; len(m.Nodes) <= mostNodes {
					out(take(n), n.Name)
				}
			}
		}}
	}
	return []metric{
		{desc("norn_nodes", "Nodes of the cluster, by state.", "state"), prometheus.GaugeValue, func(m *Metrics, out func(float64, ...string)) {
			for _, s := range api.NodeStates() {
				if len(m.Nodes) > 0 {
					out(sum(m.Nodes, func(n *api.Node) float64 { return map[bool]float64{true: 1}[n.State() == s] }), s)
				}
			}
		}},
		byType("norn_type_gpus", "GPUs of the cluster, by type.", func(n *api.Node) float64 { return n.GPUs }),
		byType("norn_type_gpus_held", "Of those, how many jobs hold.", func(n *api.Node) float64 { return n.GPUsAllocated }),
		byType("norn_type_gpus_free", "Of those, how many new work may have.", func(n *api.Node) float64 { return n.GPUsFree }),
		each("norn_node_up", "1 when the node takes new work. Metrics of single nodes are there up to 256 nodes.", func(n *api.Node) float64 { return map[bool]float64{true: 1}[n.Health == "up"] }),
		each("norn_node_gpus", "GPUs of the node.", func(n *api.Node) float64 { return n.GPUs }),
		each("norn_node_gpus_held", "Of those, how many jobs hold.", func(n *api.Node) float64 { return n.GPUsAllocated }),
	}
}
