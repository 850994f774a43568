package gate

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// counts is what is counted of one client.
type counts struct {
	input, output, left, refused prometheus.Counter
	waited, first                prometheus.Observer
}

// meters are all that the gate measures.
type meters struct {
	line                         *line
	answers                      *prometheus.CounterVec
	strangers                    prometheus.Counter
	tokens, left, refused        *prometheus.CounterVec
	waited, first                *prometheus.HistogramVec
	waiting, running             *prometheus.Desc
	inFlight, limit, counter, up *prometheus.Desc
}

func newMeters(l *line) *meters {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	times := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.005, 2.5, 13)}, []string{"client"})
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &meters{
		line:      l,
		answers:   vec("norn_gate_requests_total", "Requests that were answered, by status; 499: the client left first.", "client", "code"),
		strangers: prometheus.NewCounter(prometheus.CounterOpts{Name: "norn_gate_unknown_keys_total", Help: "Requests without a key that is known."}),
		tokens:    vec("norn_gate_tokens_total", "Tokens of requests that have ended.", "client", "kind"),
		left:      vec("norn_gate_left_waiting_total", "Requests whose client left while they waited.", "client"),
		refused:   vec("norn_gate_refused_total", "Requests that the policy has refused.", "client"),
		waited:    times("norn_gate_wait_seconds", "From the arrival of a request until it is sent to the server."),
		first:     times("norn_gate_first_token_seconds", "From the arrival of a request to the first token of its stream."),
		waiting:   desc("norn_gate_waiting", "Requests that wait.", "client"),
		running:   desc("norn_gate_running", "Requests that the server answers.", "client"),
		inFlight:  desc("norn_gate_tokens_in_flight", "Tokens in flight.", "client"),
		limit:     desc("norn_gate_tokens_in_flight_limit", "How many tokens may be in flight."),
		counter:   desc("norn_gate_counter", "Service charged to a client by the policy, divided by its weight.", "client"),
		up:        desc("norn_gate_server_up", "1 when the server can be reached."),
	}
}

// of is what is counted of a client.
func (m *meters) of(name string) *counts {
	return &counts{
		input: m.tokens.WithLabelValues(name, "input"), output: m.tokens.WithLabelValues(name, "output"),
		left: m.left.WithLabelValues(name), refused: m.refused.WithLabelValues(name),
		waited: m.waited.WithLabelValues(name), first: m.first.WithLabelValues(name),
	}
}

// Describe names what is read off the line.
func (m *meters) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.waiting, m.running, m.inFlight, m.limit, m.counter, m.up} {
		out <- d
	}
}

// Collect reads it off.
func (m *meters) Collect(out chan<- prometheus.Metric) {
	l := m.line
	l.mu.Lock()
	all, halted := l.standings(func(*account) bool { return true }), l.halted != nil
	l.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(m.up, map[bool]float64{false: 1}[halted])
	gauge(m.limit, float64(l.limit))
	for _, c := range all {
		gauge(m.waiting, float64(c.Waiting), c.Client)
		gauge(m.running, float64(c.Running), c.Client)
		gauge(m.inFlight, float64(c.Holds), c.Client)
		if c.Counter != nil {
			gauge(m.counter, *c.Counter, c.Client)
		}
	}
}

// handler answers for Prometheus.
func (m *meters) handler() http.Handler {
	own := prometheus.NewRegistry()
	own.MustRegister(m, m.answers, m.strangers, m.tokens, m.left, m.refused, m.waited, m.first,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(own, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}
