package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/norn-scheduler/norn/api"
)

// scrape is what Prometheus gets.
func scrape(t *testing.T, r *running) string {
	t.Helper()
	code, body := r.ask(t, "GET", "/metrics", "")
	if code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	return body
}

// The metrics say what the backend measured, in names and units as Prometheus
// has them.
func TestMetrics(t *testing.T) {
	r := start(t, nil)
	body := scrape(t, r)
	for _, line := range []string{
		`norn_build_info{version="v1.2.3"} 1`, `norn_jobs{state="waiting"} 3`, `norn_jobs{state="running"} 1`, `norn_jobs{state="held"} 0`,
		`norn_jobs_submitted_total 9`, `norn_jobs_ended_total{outcome="done"} 4`, `norn_jobs_ended_total{outcome="failed"} 1`, `norn_jobs_ended_total{outcome="cancelled"} 0`,
		`norn_starts_total 7`, `norn_preemptions_total 2`, `norn_failures_total 1`, `norn_evictions_total 0`, `norn_gpu_seconds_total 12.5`, `norn_lost_gpu_seconds_total 0.5`,
		`norn_gpus 2`, `norn_gpus_held 1`, `norn_gpus_broken 0`, `norn_cpu_cores 8`, `norn_cpu_cores_held 2`, `norn_drained 0`, `norn_disk_low 0`, `norn_log_bytes 4096`,
		`norn_decision_seconds_bucket{le="0.001"} 5`, `norn_decision_seconds_bucket{le="+Inf"} 8`, `norn_decision_seconds_count 8`, `norn_decision_seconds_sum 0.1`,
		`norn_queue_wait_seconds_bucket{le="10"} 3`, `norn_launch_seconds_sum 0.2`,
		`norn_device_utilization_ratio{device="gpu0",type="NVIDIA H200"} 0.5`, `norn_device_temperature_celsius{device="gpu0",type="NVIDIA H200"} 40`,
		`norn_device_jobs{device="gpu1",type="NVIDIA H200"} 0`, `norn_device_slowness_ratio{device="gpu1",type="NVIDIA H200"} 1`, `norn_tenant_gpus_held{tenant="vision"} 0.5`, `norn_tenant_usage_gpu_seconds{tenant="vision"} 5400`,
		`norn_http_connections 1`,
	} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	for _, name := range []string{"norn_device_power_watts{device=\"gpu1\"", "go_goroutines ", "process_resident_memory_bytes "} {
		if strings.Contains(body, "\n"+name) == strings.HasPrefix(name, "norn_device") {
			t.Errorf("%s: is it there or not?", name)
		}
	}
	if body = scrape(t, r); !strings.Contains(body, `norn_http_requests_total{code="200"} 1`) {
		t.Error("the first scrape was not counted")
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	ok(t, err)
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "norn_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// A cluster has metrics by state and GPU type, and by node where these are few.
func TestMetricsOfNodes(t *testing.T) {
	r := start(t, nil)
	nodes := []api.Node{
		{Name: "a-1", Health: "up", Type: "H100", GPUs: 8, GPUsFree: 2, GPUsAllocated: 6}, {Name: "a-2", Health: "drained", Type: "H100", GPUs: 8, GPUsAllocated: 7, GPUsBroken: 1, Tasks: 1},
		{Name: "b-1", Health: "down", Type: "A100", GPUs: 4}, {Name: "cpu-1", Health: "up"},
	}
	r.fake.change(func() { r.fake.cluster = nodes })
	body := scrape(t, r)
	for _, line := range []string{
		`norn_gpus 22`, `norn_gpus_held 14`, `norn_gpus_broken 1`, `norn_nodes{state="up"} 2`, `norn_nodes{state="draining"} 1`, `norn_nodes{state="drained"} 0`, `norn_nodes{state="down"} 1`,
		`norn_type_gpus{type="H100"} 16`, `norn_type_gpus_held{type="H100"} 13`, `norn_type_gpus_free{type="H100"} 2`, `norn_type_gpus{type="A100"} 4`,
		`norn_node_up{node="a-1"} 1`, `norn_node_up{node="a-2"} 0`, `norn_node_gpus{node="b-1"} 4`, `norn_node_gpus_held{node="a-2"} 7`,
	} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	for i := range mostNodes {
		nodes = append(nodes, api.Node{Name: fmt.Sprint("n", i), Health: "up"})
	}
	r.fake.change(func() { r.fake.cluster = nodes })
	if body = scrape(t, r); strings.Contains(body, "norn_node_up{") || !strings.Contains(body, `norn_nodes{state="up"} 258`) {
		t.Error("there are as many metrics as nodes")
	}
	r.fake.change(func() { r.fake.cluster = nil })
	if body = scrape(t, r); strings.Contains(body, "norn_nodes{") || strings.Contains(body, "norn_type_") {
		t.Error("one machine has metrics of a cluster")
	}
}

// A backend that cannot measure has no metrics, rather than zeros.
func TestNoMetrics(t *testing.T) {
	r := start(t, nil)
	r.fake.change(func() { r.fake.boom = errors.New("stopping") })
	if code, body := r.ask(t, "GET", "/metrics", ""); code != 500 || strings.Contains(body, "norn_gpus 0") {
		t.Errorf("%d %s", code, body)
	}
	r.fake.change(func() { r.fake.boom = api.Refuse(api.Unavailable, "norn is stopping") })
	if code, body := r.ask(t, "GET", "/metrics", ""); code != 503 || !strings.Contains(body, "norn is stopping") {
		t.Errorf("while it stops: %d %s", code, body)
	}
	r = start(t, func(c *Config) { c.Metrics = false })
	if code, _ := r.ask(t, "GET", "/metrics", ""); code != 404 {
		t.Errorf("they were not wanted: %d", code)
	}
}

// The dashboard asks for metrics that there are, and for most of ours.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "grafana.json"))
	ok(t, err)
	var board any
	ok(t, json.Unmarshal(text, &board))
	r := start(t, nil)
	scrape(t, r) // so that there are requests to count
	body := scrape(t, r)
	there := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z_]+)(\{| )`).FindAllStringSubmatch(body, -1) {
		there[m[1]] = true
	}
	var asked []string
	word := regexp.MustCompile(`\b(norn|go|process)_[a-z_]+`)
	walk(board, func(key, value string) {
		if key == "expr" || key == "query" || key == "definition" {
			asked = append(asked, word.FindAllString(value, -1)...)
		}
	})
	slices.Sort(asked)
	asked = slices.Compact(asked)
	for _, name := range asked {
		if !there[name] {
			t.Errorf("there is no metric %s", name)
		}
	}
	if len(asked) < 20 {
		t.Errorf("it asks for %q alone", asked)
	}
}

// walk visits every text below a value of JSON, with the name of its field.
func walk(v any, visit func(key, value string)) {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if text, is := inner.(string); is {
				visit(key, text)
			}
			walk(inner, visit)
		}
	case []any:
		for _, inner := range v {
			walk(inner, visit)
		}
	}
}
