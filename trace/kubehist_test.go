package trace_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/trace"
)

// sample is a file of testdata.
func sample(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestWorkloads reads Workloads of Kueue in all states: finished, evicted and run again,
// running with fewer pods than asked for, evicted and waiting, deactivated, never admitted.
func TestWorkloads(t *testing.T) {
	text := sample(t, "workloads.json")
	entries, info := readText(t, text, trace.Options{})
	if info.Format != "workloads" {
		t.Fatalf("taken for format %s", info.Format)
	}
	const h100 = `"types":"NVIDIA-H100-80GB-HBM3","tolerate":"nvidia.com/gpu:NoSchedule",`
	want := []string{
		`{"job":"vision/job-slow-8",` + h100 + `"roles":[{"tasks":1,"gpu":2,"cpu":8,"mem":68719476736}],"work":3600,"outcome":"killed","wait":600,"name":"slow","user":"vision","tenant":"vq"}`,
		`{"job":"nlp-prod/job-bert-7c2f1","submit":3600,` + h100 + `"roles":[{"tasks":4,"gpu":8,"cpu":8,"mem":68719476736}],"work":7200,"wait":300,"name":"bert","user":"nlp-prod","tenant":"nlp","priority":100,"estimate":14400,"hints":{"qos":"prod"}}`,
		`{"job":"nlp-prod/jobset-gpt-90ab3","submit":5400,` + h100 + `"roles":[{"name":"worker","tasks":2,"gpu":8,"cpu":8,"mem":68719476736},{"name":"launcher","tasks":1,"cpu":1,"mem":2147483648}],"work":2400,"attempts":[1800],"outcome":"failed","wait":7200,"name":"gpt","user":"nlp-prod","tenant":"nlp"}`,
		`{"job":"vision/job-resnet-11aa0","submit":7200,"roles":[{"tasks":2,"gpu":1,"cpu":8,"mem":17179869184}],"work":9570,"wait":30,"at_least":true,"name":"resnet","user":"vision","tenant":"vision"}`,
		`{"job":"nlp-prod/job-eval-5","submit":7800,` + h100 + `"roles":[{"tasks":1,"gpu":1,"cpu":8,"mem":68719476736}],"work":1200,"wait":1200,"at_least":true,"name":"eval","user":"nlp-prod","tenant":"nlp"}`,
	}
	equalLines(t, entries, want...)
	if info.Rows != 8 || info.Jobs != 5 || info.LeftOut != 3 || info.Origin != time.Date(2026, 3, 2, 7, 0, 0, 0, time.UTC) {
		t.Errorf("%+v", info)
	}
	for i, want := range []string{"is a LocalQueue", "has not been admitted", "ended before it was admitted"} {
		if got := info.Problems[i].Error(); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	indented, err := json.MarshalIndent(v, "", "      ")
	if err != nil {
		t.Fatal(err)
	}
	again, _ := readText(t, string(indented), trace.Options{})
	equalLines(t, again, want...)
}

// workload is a Workload of v1beta1 with some conditions ("Admitted True Admitted 5" is 5
// minutes after its creation), as YAML.
func workload(status string, conditions ...string) string {
	text := `apiVersion: kueue.x-k8s.io/v1beta1
kind: Workload
metadata: {name: w, namespace: n, creationTimestamp: "2026-03-02T08:00:00Z"}
spec:
  priorityClassName: low
  podSets:
  - {name: main, count: 1, template: {spec: {containers: [{resources: {requests: {cpu: "1"}}}]}}}
status:
  ` + status + `
  conditions:
`
	for _, c := range conditions {
		f := strings.Fields(c)
		minutes, _ := time.ParseDuration(f[3] + "m")
		at := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC).Add(minutes).Format(time.RFC3339)
		text += fmt.Sprintf("  - {type: %s, status: %q, reason: %s, lastTransitionTime: %q, message: %q}\n", f[0], f[1], f[2], at, strings.Join(f[4:], " "))
	}
	return text
}

// TestWorkloadEnds has how Workloads end, in the words of versions of Kueue.
func TestWorkloadEnds(t *testing.T) {
	for reason, want := range map[string]string{
		"Succeeded 9": "passed", "Failed 9": "failed", "JobFinished 9 Job finished successfully": "passed", "JobFinished 9 Job has reached the specified backoff limit": "failed",
		"OwnerNotFound 9": "killed", "WorkloadSliceReplaced 9": "passed", "Other 9": "passed",
	} {
		entries, info := readText(t, workload("admission: {clusterQueue: q}", "Admitted True Admitted 2", "Finished True "+reason), trace.Options{})
		if len(entries) != 1 || entries[0].Truth.Outcome.String() != want || entries[0].Truth.Work != 7*time.Minute || entries[0].Truth.Wait != 2*time.Minute || entries[0].Job.Tenant != "q" || entries[0].Job.Hints.QoS != "low" {
			t.Errorf("%s: %v, want %s", reason, lines(t, entries), want)
		}
		if told := len(info.Empty) == 1; told != strings.HasPrefix(reason, "Other") {
			t.Errorf("%s: %+v", reason, info.Empty)
		}
	}
	for text, want := range map[string]string{
		workload("x: 1", "Admitted True Admitted 5", "Finished True Succeeded 4"):                                                    "an end (Finished) after the admission",
		workload("accumulatedPastExecutionTimeSeconds: -1", "Admitted True Admitted 5"):                                              "accumulatedPastExecutionTimeSeconds from 0",
		strings.Replace(workload("x: 1", "Admitted True Admitted 5"), `cpu: "1"`, `cpu: many`, 1):                                    `"many" is not a quantity`,
		strings.Replace(workload("x: 1", "Admitted True Admitted 5"), `"2026-03-02T08:00:00Z"}`, `"soon"}`, 1):                       "item 1",
		strings.Replace(workload("x: 1", "Admitted True Admitted 5"), `, creationTimestamp: "2026-03-02T08:00:00Z"`, ``, 1):          "n/w: found nothing, expected a valid creationTimestamp",
		strings.Replace(workload("x: 1", "Admitted True Admitted 5"), `count: 1`, `count: -1`, 1):                                    "fewer than 0 pods",
		workload("admission: {podSetAssignments: [{name: main, count: 1, resourceUsage: {memory: x}}]}", "Admitted True Admitted 5"): `memory: "x" is not a quantity`,
	} {
		if _, err := trace.NewReader(strings.NewReader(text), "w.yaml", trace.Options{}); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "w.yaml") {
			t.Errorf("%v, want %s\n%s", err, want, text)
		}
	}
}

// TestPrometheus reads answers to two queries: a JobSet, a Job that was preempted and one
// of the same name that was deleted, pods by themselves.
func TestPrometheus(t *testing.T) {
	text := sample(t, "prometheus.json")
	entries, info := readText(t, text, trace.Options{})
	if info.Format != "prometheus" {
		t.Fatalf("taken for format %s", info.Format)
	}
	const types, size, rest = `"types":"NVIDIA-H100-80GB-HBM3",`, `"cpu":8,"mem":68719476736}],`, `"hints":{"qos":"Burstable"}}`
	want := []string{
		`{"job":"vision/serve-66f",` + types + `"roles":[{"tasks":1,"gpu":1,` + size + `"work":100700,"wait":100,"at_least":true,"name":"serve-66f","tenant":"vision",` + rest,
		`{"job":"nlp/gpt","submit":87000,` + types + `"roles":[{"name":"worker","tasks":2,"gpu":8,"cpu":8,"mem":68719476736},{"name":"launcher","tasks":1,` + size + `"work":6600,"wait":600,"name":"gpt","tenant":"nlp",` + rest,
		`{"job":"nlp/bert","submit":87300,` + types + `"roles":[{"tasks":1,"gpu":4,` + size + `"work":3600,"attempts":[1800],"wait":1860,"name":"bert","tenant":"nlp",` + rest,
		`{"job":"vision/try","submit":88200,` + types + `"roles":[{"tasks":1,"gpu":1,` + size + `"work":60,"outcome":"failed","wait":30,"name":"try","tenant":"vision",` + rest,
		`{"job":"nlp/bert#2","submit":97200,` + types + `"roles":[{"tasks":1,"gpu":4,` + size + `"work":1740,"outcome":"killed","wait":60,"name":"bert","tenant":"nlp",` + rest,
	}
	equalLines(t, entries, want...)
	if info.Rows != 10 || info.Jobs != 5 || info.Folded != 3 || info.LeftOut != 2 || strings.Join(info.Ignored, " ") != "kube_pod_info" {
		t.Errorf("%+v", info)
	}
	// Prometheus may put the labels of its target first, promtool writes lists alone, and
	// the order of answers does not matter.
	first, second, _ := strings.Cut(text, "}\n]}}\n")
	var parts []string
	for _, part := range []string{strings.TrimSuffix(second, "]}}\n"), first + "}\n"} {
		_, list, _ := strings.Cut(part, `"result":`)
		parts = append(parts, list+"]")
	}
	for label := range map[string]bool{"pod": true, "namespace": true, "container": true} {
		for i := range parts {
			parts[i] = strings.ReplaceAll(parts[i], `"`+label+`":`, `"`+label+`":"kube-state-metrics","exported_`+label+`":`)
		}
	}
	again, info := readText(t, strings.Join(parts, "\n"), trace.Options{})
	if info.Format != "prometheus" {
		t.Fatalf("taken for format %s", info.Format)
	}
	equalLines(t, again, want...)
}

// series is a series with samples one after the other, as "1000=5 1060=5".
func series(name, labels, samples string) string {
	var values []string
	for _, s := range strings.Fields(samples) {
		at, v, _ := strings.Cut(s, "=")
		values = append(values, fmt.Sprintf("[%s,%q]", at, v))
	}
	return fmt.Sprintf(`{"metric":{"__name__":%q,"namespace":"n","pod":"p"%s},"values":[%s]}`, name, labels, strings.Join(values, ","))
}

// TestPrometheusWhatIsThere reads answers of which parts are missing.
func TestPrometheusWhatIsThere(t *testing.T) {
	matrix := func(all ...string) string {
		return `{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(all, ",") + `]}}`
	}
	created := series("kube_pod_created", "", "2000=1000")
	gpu := series("kube_pod_container_resource_requests", `,"container":"c","resource":"nvidia_com_mig_3g_20gb"`, "2000=1")
	for name, c := range map[string]struct{ text, want string }{
		"no start":              {matrix(created, gpu), "has not started"},
		"no creation":           {matrix(gpu), "has no kube_pod_created"},
		"nothing asked for":     {matrix(created), "asks for no GPU"},
		"scheduled alone":       {matrix(created, gpu, series("kube_pod_status_scheduled_time", "", "2000=1100"), series("kube_pod_completion_time", "", "2000=1500")), `"roles":[{"tasks":1,"gpu":0.429,"gpu_mem":21474836480}],"work":900,"wait":100,"at_least":true`},
		"over without its time": {matrix(created, gpu, series("kube_pod_start_time", "", "2000=1100"), series("kube_pod_status_phase", `,"phase":"Running"`, "1800=1 1860=0"), series("kube_pod_status_phase", `,"phase":"Succeeded"`, "1800=0 1860=1 1920=1")), `"work":760,"wait":100`},
		"a container again":     {matrix(created, gpu, series("kube_pod_container_state_started", "", "1200=1150 1800=1700")), `"work":850,"wait":150,"at_least":true`},
	} {
		r, err := trace.NewReader(strings.NewReader(c.text), "f", trace.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		entries, info := drain(t, r)
		if got := strings.Join(lines(t, entries), "\n") + fmt.Sprint(info.Problems); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	for text, want := range map[string]string{
		`{"status":"error","errorType":"bad_data","error":"exceeded maximum resolution of 11,000 points","data":{"resultType":"matrix","result":[]}}`: "Prometheus has answered with an error: exceeded",
		matrix(created)[:60]:  "unexpected EOF",
		matrix(created) + "x": "invalid character",
		matrix(strings.Replace(created, `"1000"`, `"much"`, 1)): `series 1: "much" is no value`,
		matrix(strings.Replace(created, `[2000,`, `[`, 1)):      "is no sample",
		matrix(strings.Replace(created, `[2000,`, `["x",`, 1)):  "is no time of a sample",
	} {
		if _, err := trace.NewReader(strings.NewReader(text), "f", trace.Options{Format: "prometheus"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// event is an event of core/v1 about an object, so many minutes after eight.
func event(kind, name, reason, message string, minute int) string {
	at := time.Date(2024, 3, 1, 8, minute, 0, 0, time.UTC).Format(time.RFC3339)
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Event","metadata":{"name":"%s.17","namespace":"team-a"},"involvedObject":{"apiVersion":"v1","kind":%q,"name":%q,"namespace":"team-a","uid":"u-%s"},`+
		`"reason":%q,"message":%q,"firstTimestamp":%q,"lastTimestamp":%q,"count":1,"type":"Normal","source":{"component":"kubelet"}}`, name, kind, name, name, reason, message, at, at)
}

// TestPodEvents: events beside pods tell of a first start, and of a pod that was preempted
// and is gone. What they do not tell is counted.
func TestPodEvents(t *testing.T) {
	meta := labels("batch.kubernetes.io/job-name", "b", "batch.kubernetes.io/job-completion-index", "0") + owner("Job", "b")
	text := podList(
		event("Job", "b", "SuccessfulCreate", "Created pod: b-0-aaaaa", 1),
		event("Pod", "b-0-aaaaa", "Scheduled", "Successfully assigned team-a/b-0-aaaaa to n1", 2),
		event("Pod", "b-0-aaaaa", "Started", "Started container c", 3),
		event("Pod", "b-0-aaaaa", "Preempted", "Preempted by pod 17 on node n1", 13),
		event("Job", "b", "SuccessfulCreate", "Created pod: b-0-bbbbb", 13),
		podOf("b-0-bbbbb", meta, gpu1, "Succeeded", 13, 20, 50),
		// A container that was started again: its status tells the last start alone.
		podOf("again", "", gpu1, "Running", 0, 30, -1),
		event("Pod", "again", "Started", "Started container c", 5),
		event("Pod", "again", "BackOff", "Back-off restarting failed container", 29),
		// What is of no use.
		event("Pod", "other-x-ccccc", "Started", "Started container c", 5),
		event("Pod", "b-0-ddddd", "FailedScheduling", "0/3 nodes are available", 14),
		event("Node", "n1", "NodeReady", "Node n1 status is now: NodeReady", 5),
		`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"b","namespace":"team-a"`+meta+`}}`,
	)
	entries, info := readText(t, text, trace.Options{AnyType: true})
	const size = `"roles":[{"tasks":1,"gpu":1,"cpu":0.5,"mem":17179869184}],`
	equalLines(t, entries,
		`{"job":"team-a/again",`+size+`"work":2700,"wait":300,"at_least":true,"name":"again","tenant":"team-a","priority":5,"hints":{"qos":"Burstable"}}`,
		`{"job":"team-a/b","submit":60,`+size+`"work":1800,"attempts":[600],"wait":540,"name":"b","tenant":"team-a","priority":5,"hints":{"qos":"Burstable"}}`,
	)
	if info.Format != "pods" || info.Rows != 13 || info.Jobs != 2 || info.LeftOut != 4 || info.Folded != 7 {
		t.Errorf("%+v", info)
	}
	var why []string
	for _, r := range info.Reasons {
		why = append(why, fmt.Sprintf("%d %s", r.Rows, r.Why))
	}
	want := "1 is an event of a Node; 1 is a Job, not a pod; 1 is an event of a pod that is gone and had not started; " +
		"1 is an event of a pod that is gone, and of which no pod in the list tells what it asked for (kubectl get pods,events)"
	if got := strings.Join(why, "; "); got != want {
		t.Errorf("left out are %s\nwant %s", got, want)
	}
	_, err := trace.NewReader(strings.NewReader(podList(event("Pod", "p", "Started", "", 1))), "events.json", trace.Options{SomeJob: true})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPodsYAML reads a list of pods in YAML.
func TestPodsYAML(t *testing.T) {
	text := `apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: p, namespace: n, creationTimestamp: "2024-03-01T08:00:00Z"}
  spec:
    containers: [{name: c, resources: {limits: {nvidia.com/gpu: 2}}}]
    tolerations: [{key: team, operator: Equal, value: x, effect: NoSchedule}, {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}]
  status:
    phase: Succeeded
    containerStatuses: [{state: {terminated: {startedAt: "2024-03-01T08:01:00Z", finishedAt: "2024-03-01T08:02:00Z"}}}]
kind: List
`
	entries, _ := readText(t, text, trace.Options{})
	equalLines(t, entries, `{"job":"n/p","tolerate":"team=x:NoSchedule","roles":[{"tasks":1,"gpu":2}],"work":60,"wait":60,"name":"p","tenant":"n"}`)
}
