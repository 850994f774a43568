package trace_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

const sacctExport = `JobID|JobName|User|Account|Partition|Submit|Eligible|Start|End|Elapsed|State|AllocTRES|ReqTRES|TRESUsageInAve|AllocCPUS|ReqMem|NNodes|Timelimit|Priority|QOS|ExitCode|Comment
100|train|ann|vision|gpu|2024-03-01T08:00:00|2024-03-01T08:00:00|2024-03-01T08:05:00|2024-03-01T10:05:00|02:00:00|COMPLETED|billing=16,cpu=16,gres/gpu:a100=8,gres/gpu=8,mem=128G,node=2|cpu=16||16|128G|2|1-00:00:00|4294901700|high|0:0|
100.batch|batch||vision||2024-03-01T08:05:00|2024-03-01T08:05:00|2024-03-01T08:05:00|2024-03-01T10:05:00|02:00:00|COMPLETED|cpu=8,mem=64G,node=1||cpu=01:00:00,gres/gpumem=30000M,gres/gpuutil=640|8||1||||0:0|
100.0|python||vision||2024-03-01T08:05:00|2024-03-01T08:05:00|2024-03-01T08:05:00|2024-03-01T10:05:00|02:00:00|COMPLETED|cpu=16,node=2||gres/gpuutil=700|16||2||||0:0|
101_4|sweep|bob||gpu|2024-03-01T07:00:00|2024-03-01T09:00:00|2024-03-01T09:30:00|2024-03-01T09:31:30|00:01:30|CANCELLED by 1000|cpu=4,gres/gpu=1,mem=16G,node=1|||4|16G|1|UNLIMITED|7|normal|0:0|
101_[5-9]|sweep|bob||gpu|2024-03-01T07:00:00|Unknown|Unknown|Unknown|00:00:00|PENDING||cpu=4,gres/gpu=1||0|16G|1|UNLIMITED|7|normal|0:0|
102|again|cid|nlp|gpu|2024-03-01T06:00:00|2024-03-01T06:00:00|2024-03-01T06:10:00|2024-03-01T06:20:00|00:10:00|NODE_FAIL|cpu=2,gres/gpu=2,node=1|||2||1|10:00|1|normal|0:0|
102|again|cid|nlp|gpu|2024-03-01T06:20:00|2024-03-01T06:22:00|2024-03-01T06:30:00|2024-03-01T06:45:30|00:15:30|REQUEUED|cpu=2,gres/gpu=2,node=1|||2||1|10:00|1|normal|0:0|
102|again|cid|nlp|gpu|2024-03-01T06:45:30|2024-03-01T06:47:00|2024-03-01T07:00:00|Unknown|3-01:00:00|RUNNING|cpu=2,gres/gpu=2,node=1|||2||1|10:00|1|normal|0:0|
103+0|mixed|dan|nlp|gpu|2024-03-01T11:00:00|2024-03-01T11:00:00|2024-03-01T11:00:30|2024-03-01T11:01:30|00:01:00|TIMEOUT|cpu=8,gres/gpu=4,node=1|||8||1|1|1|normal|0:0|
103+1|mixed|dan|nlp|cpu|2024-03-01T11:00:00|2024-03-01T11:00:00|2024-03-01T11:00:30|2024-03-01T11:01:30|00:01:00|TIMEOUT|cpu=64,mem=100G,node=2|||64||2|1|1|normal|0:0|
104|never|eve|nlp|gpu|2024-03-01T12:00:00|2024-03-01T12:00:00|None|2024-03-01T12:30:00|00:00:00|CANCELLED by 7|cpu=1|||1||1|1|1|normal|0:0|
`

func TestSacct(t *testing.T) {
	entries, info := readText(t, sacctExport, trace.Options{})
	if info.Format != "sacct" {
		t.Fatalf("taken for format %s", info.Format)
	}
	equalLines(t, entries,
		`{"job":"102","roles":[{"tasks":1,"gpu":2,"cpu":2}],"work":262800,"attempts":[600,930],"wait":2070,"at_least":true,"name":"again","user":"cid","tenant":"nlp","partition":"gpu","priority":1,"estimate":600,"hints":{"qos":"normal"}}`,
		`{"job":"101_4","submit":3600,"roles":[{"tasks":1,"gpu":1,"cpu":4,"mem":17179869184}],"work":90,"outcome":"killed","wait":1800,"name":"sweep","user":"bob","tenant":"gpu","partition":"gpu","priority":7,"hints":{"qos":"normal"}}`,
		`{"job":"100","submit":7200,"types":"a100","roles":[{"tasks":2,"gpu":4,"cpu":8,"mem":68719476736}],"work":7200,"wait":300,"name":"train","user":"ann","tenant":"vision","partition":"gpu","priority":2147483647,"estimate":86400,"hints":{"gpu_use":0.875,"gpu_mem":31457280000,"qos":"high"}}`,
		`{"job":"103","submit":18000,"roles":[{"name":"het0","tasks":1,"gpu":4,"cpu":8},{"name":"het1","tasks":2,"cpu":32,"mem":53687091200}],"work":60,"outcome":"failed","wait":30,"name":"mixed","user":"dan","tenant":"nlp","partition":"gpu","priority":1,"hints":{"qos":"normal"}}`,
	)
	if info.Rows != 11 || info.Jobs != 4 || info.Folded != 5 || info.LeftOut != 2 {
		t.Errorf("%+v", info)
	}
	if want := time.Date(2024, 3, 1, 6, 0, 0, 0, time.UTC); !info.Origin.Equal(want) {
		t.Errorf("begins at %v", info.Origin)
	}
	if got := fmt.Sprint(info.Ignored); got != "[End ExitCode Comment]" {
		t.Errorf("ignored %s", got)
	}
}

// TestSacctWhatIsThere reads exports with few and with old columns.
func TestSacctWhatIsThere(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"JobID|Submit|State|ElapsedRaw|ReqCPUS\n7|2024-03-01T08:00:00|COMPLETED|75|3\n", `{"job":"7","roles":[{"tasks":1,"cpu":3}],"work":75}`},
		{"jobid|submit|state|elapsed|reqgres|allocnodes|reqmem|alloccpus|timelimitraw|start\n7|2024-03-01T08:00:00|FAILED|10:05.5|gpu:tesla:2|3|4Gn|12|30|2024-03-01T08:00:09\n",
			`{"job":"7","types":"tesla","roles":[{"tasks":3,"gpu":2,"cpu":4,"mem":4294967296}],"work":605.5,"outcome":"failed","wait":9,"estimate":1800}`},
		{"JobID|Submit|State|Elapsed|AllocGRES|ReqMem|NCPUS|\n7|2024-03-01T08:00:00|OUT_OF_ME+|00:01|gres:gpu:1(IDX:0)|2Gc|4|\n8|2024-03-01T08:00:00|OUT_OF_MEMORY|00:01|gres:gpu:1(IDX:0)|2Gc|4|\n",
			`{"job":"8","roles":[{"tasks":1,"gpu":1,"cpu":4,"mem":8589934592}],"work":1,"outcome":"failed"}`},
	} {
		entries, info := readText(t, test.text, trace.Options{SkipBad: true})
		if info.Format != "sacct" || len(entries) != 1 {
			t.Fatalf("%+v", info)
		}
		equalLines(t, entries, test.want)
	}
	for text, want := range map[string]string{
		"JobID|Submit|State|Elapsed\n7|yesterday|COMPLETED|00:01\n":          "a time of day",
		"JobID|Submit|State|Elapsed\n7|2024-03-01T08:00:00|COMPLETED|soon\n": "a time such as",
		"JobID|Submit|State|Elapsed\n7|2024-03-01T08:00:00\n":                "4 fields",
		"JobID|Submit|State|Elapsed\n7|2024-03-01T08:00:00|FAILED|00:01\n":   "asks for no GPU, CPU or memory",
	} {
		_, err := trace.NewReader(strings.NewReader(text), "sacct.txt", trace.Options{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "sacct.txt, line 2") {
			t.Errorf("%q:\n have %v\n want %s", text, err, want)
		}
	}
}

// TestSacctAsOperatorsExportIt reads what real exports have: jobs that never ran
// and tell of nothing, texts with the separator and quotes, and MIG slices.
func TestSacctAsOperatorsExportIt(t *testing.T) {
	const head = "JobID|Submit|State|Elapsed|AllocTRES|JobName\n"
	const at = "|2024-03-01T08:00:00|"
	for name, test := range map[string]struct{ text, want string }{
		"pending ones hold nothing": {head + "6" + at + "PENDING|00:00:00||later\n7" + at + "COMPLETED|00:01|gres/gpu=1|a\n",
			`{"job":"7","gpus":1,"work":1,"name":"a"}`},
		"cancelled before the start, and again": {head + "7" + at + "CANCELLED by 5|00:00:00||a\n7" + at + "COMPLETED|00:09|gres/gpu=2,node=1|a\n",
			`{"job":"7","roles":[{"tasks":1,"gpu":2}],"work":9,"name":"a"}`},
		"a name with the separator": {head + "7" + at + "COMPLETED|00:01|gres/gpu=1|a | b|c\n",
			`{"job":"7","gpus":1,"work":1,"name":"a | b|c"}`},
		"a quote opens nothing": {head + "7" + at + "COMPLETED|00:01|gres/gpu=1|\"a\n8" + at + "PENDING|00:00:00||b\"\n",
			`{"job":"7","gpus":1,"work":1,"name":"\"a"}`},
		"a MIG slice": {head + "7" + at + "COMPLETED|00:01|gres/gpu:1g.10gb=1,gres/gpu=1|a\n",
			`{"job":"7","roles":[{"tasks":1,"gpu":0.143,"gpu_mem":10737418240}],"work":1,"name":"a"}`},
		"MIG slices of a type": {head + "7" + at + "COMPLETED|00:01|gres/gpu:a100_3g.20gb=2,gres/gpu=2|a\n",
			`{"job":"7","types":"a100","roles":[{"tasks":1,"gpu":0.858,"gpu_mem":21474836480}],"work":1,"name":"a"}`},
		"many MIG slices are whole GPUs": {head + "7" + at + "COMPLETED|00:01|gres/gpu:3g.20gb=3|a\n",
			`{"job":"7","roles":[{"tasks":1,"gpu":2,"gpu_mem":21474836480}],"work":1,"name":"a"}`},
	} {
		entries, info := readText(t, test.text, trace.Options{})
		if info.Format != "sacct" || len(entries) != 1 {
			t.Fatalf("%s: %d jobs, %+v", name, len(entries), info)
		}
		equalLines(t, entries, test.want)
	}
	for text, want := range map[string]string{
		"JobID|Submit|State|Elapsed|JobName|AllocTRES\n7" + at + "COMPLETED|00:01|a | b|gres/gpu=1\n": `line 2: found 7 fields, expected 6 fields, as many as the header has: a text in it holds a "|"`,
		"JobID|Submit|State|Elapsed|SubmitLine|JobName\n7" + at + "COMPLETED|00:01|a | b|a\n":         "line 2: found 7 fields, expected 6 fields",
		"JobID|Start|State|Elapsed\n":                        "line 1: found \"JobID|Start|State|Elapsed\", expected columns JobID, Submit, State and Elapsed or ElapsedRaw",
		"JobID    JobName  Partition\n-----  ----- ------\n": "export it with --parsable2",
	} {
		if _, err := trace.NewReader(strings.NewReader(text), "sacct.txt", trace.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n have %v\n want %s", text, err, want)
		}
	}
}

// podOf writes a pod. Times are minutes after 2024-03-01 08:00; end < 0 is a pod
// that runs, start < 0 one that has not started.
func podOf(name, meta, resources, phase string, created, start, end int) string {
	at := func(m int) string {
		return `"` + time.Date(2024, 3, 1, 8, m, 0, 0, time.UTC).Format(time.RFC3339) + `"`
	}
	state := `{"waiting":{"reason":"ContainerCreating"}}`
	switch {
	case start >= 0 && end < 0:
		state = `{"running":{"startedAt":` + at(start) + `}}`
	case start >= 0:
		state = `{"terminated":{"startedAt":` + at(start) + `,"finishedAt":` + at(end) + `,"exitCode":0}}`
	}
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `","namespace":"team-a","uid":"u-` + name + `","creationTimestamp":` + at(created) + meta + `},
"spec":{"priority":5,"containers":[{"name":"c","resources":` + resources + `}],"nodeSelector":{"nvidia.com/gpu.product":"NVIDIA-A100"}},
"status":{"phase":"` + phase + `","qosClass":"Burstable","conditions":[{"type":"Ready","lastTransitionTime":` + at(created) + `}],"containerStatuses":[{"name":"c","state":` + state + `,"lastState":{}}]}}`
}

func podList(pods ...string) string {
	return `{"apiVersion":"v1","items":[` + strings.Join(pods, ",\n") + `],"kind":"List","metadata":{"resourceVersion":""}}`
}

const gpu1 = `{"limits":{"nvidia.com/gpu":"1","cpu":"4","memory":"16Gi"},"requests":{"cpu":"500m"}}`

func labels(pairs ...string) string {
	var s []string
	for i := 0; i < len(pairs); i += 2 {
		s = append(s, `"`+pairs[i]+`":"`+pairs[i+1]+`"`)
	}
	return `,"labels":{` + strings.Join(s, ",") + `}`
}

func owner(kind, name string) string {
	return `,"ownerReferences":[{"kind":"` + kind + `","name":"` + name + `","uid":"o-` + name + `","controller":true}]`
}

func TestPods(t *testing.T) {
	text := podList(
		// A PyTorch job: a master and two workers.
		podOf("pt-master-0", labels("training.kubeflow.org/job-name", "pt", "training.kubeflow.org/replica-type", "master"), gpu1, "Succeeded", 10, 12, 70),
		podOf("pt-worker-0", labels("training.kubeflow.org/job-name", "pt", "training.kubeflow.org/replica-type", "worker"), `{"limits":{"nvidia.com/gpu":"8"}}`, "Succeeded", 10, 13, 72),
		podOf("pt-worker-1", labels("training.kubeflow.org/job-name", "pt", "training.kubeflow.org/replica-type", "worker"), `{"limits":{"nvidia.com/gpu":"8"}}`, "Succeeded", 11, 14, 71),
		// A batch job whose first pod failed.
		podOf("b-1", labels("batch.kubernetes.io/job-name", "b")+owner("Job", "b"), gpu1, "Failed", 0, 1, 5),
		podOf("b-2", labels("batch.kubernetes.io/job-name", "b")+owner("Job", "b"), gpu1, "Succeeded", 6, 7, 17),
		// A gang by annotation that runs.
		podOf("v-0", `,"annotations":{"scheduling.k8s.io/group-name":"v"}`, gpu1, "Running", 20, 21, -1),
		podOf("v-1", `,"annotations":{"scheduling.k8s.io/group-name":"v"}`, gpu1, "Running", 20, 22, -1),
		// Owned by something not known.
		podOf("x-0", owner("MyJob", "x"), gpu1, "Failed", 30, 31, 33),
		podOf("x-1", owner("MyJob", "x"), gpu1, "Succeeded", 30, 31, 34),
		// Replicas of a deployment are jobs of their own.
		podOf("r-1", owner("ReplicaSet", "r"), gpu1, "Running", 40, 40, -1),
		podOf("r-2", owner("ReplicaSet", "r"), gpu1, "Running", 40, 41, -1),
		// Parts of GPUs.
		podOf("mig", "", `{"limits":{"nvidia.com/mig-3g.20gb":"1"}}`, "Succeeded", 50, 51, 52),
		// The rows that are left out.
		podOf("ds", owner("DaemonSet", "ds"), gpu1, "Running", 0, 0, -1),
		podOf("wait", "", gpu1, "Pending", 60, -1, -1),
		podOf("nothing", "", `{}`, "Succeeded", 0, 1, 2),
	)
	entries, info := readText(t, text, trace.Options{})
	if info.Format != "pods" {
		t.Fatalf("taken for format %s", info.Format)
	}
	mem := `"cpu":0.5,"mem":17179869184`
	rest := `"tenant":"team-a","priority":5,"hints":{"qos":"Burstable"}}`
	equalLines(t, entries,
		`{"job":"team-a/b","types":"NVIDIA-A100","roles":[{"tasks":1,"gpu":1,`+mem+`}],"work":600,"attempts":[240],"wait":180,"name":"b",`+rest,
		`{"job":"team-a/pt","submit":600,"types":"NVIDIA-A100","roles":[{"name":"worker","tasks":2,"gpu":8},{"name":"master","tasks":1,"gpu":1,`+mem+`}],"work":3600,"wait":120,"name":"pt",`+rest,
		`{"job":"team-a/v","submit":1200,"types":"NVIDIA-A100","roles":[{"tasks":2,"gpu":1,`+mem+`}],"work":3060,"wait":60,"at_least":true,"name":"v",`+rest,
		`{"job":"team-a/x","submit":1800,"types":"NVIDIA-A100","roles":[{"tasks":2,"gpu":1,`+mem+`}],"work":180,"outcome":"failed","wait":60,"name":"x",`+rest,
		`{"job":"team-a/r-1","submit":2400,"types":"NVIDIA-A100","roles":[{"tasks":1,"gpu":1,`+mem+`}],"work":1920,"wait":0,"at_least":true,"name":"r-1",`+rest,
		`{"job":"team-a/r-2","submit":2400,"types":"NVIDIA-A100","roles":[{"tasks":1,"gpu":1,`+mem+`}],"work":1860,"wait":60,"at_least":true,"name":"r-2",`+rest,
		`{"job":"team-a/mig","submit":3000,"types":"NVIDIA-A100","roles":[{"tasks":1,"gpu":0.429,"gpu_mem":21474836480}],"work":60,"wait":60,"name":"mig",`+rest,
	)
	if info.Rows != 15 || info.Jobs != 7 || info.Folded != 5 || info.LeftOut != 3 {
		t.Errorf("%+v", info)
	}
}

// A single pod is read as a list of one; an item that makes no sense is one bad
// row.
func TestPodsOneAndBad(t *testing.T) {
	one := podOf("p", "", gpu1, "Succeeded", 0, 1, 2)
	if entries, info := readText(t, one, trace.Options{}); len(entries) != 1 || entries[0].Job.Key != "team-a/p" || info.Rows != 1 {
		t.Errorf("%v %+v", lines(t, entries), info)
	}
	entries, info := readText(t, podList(one, `{"metadata":{"creationTimestamp":"yesterday"}}`), trace.Options{SkipBad: true})
	if len(entries) != 1 || info.Rows != 2 || info.Bad != 1 || !strings.Contains(info.Problems[0].Error(), "item 2") {
		t.Errorf("%v %+v", lines(t, entries), info)
	}
}

func TestPodSizes(t *testing.T) {
	for resources, want := range map[string]string{
		`{"limits":{"amd.com/gpu":"4"}}`:                                  `{"tasks":1,"gpu":4}`,
		`{"limits":{"nvidia.com/mig-1g.5gb":"3"}}`:                        `{"tasks":1,"gpu":0.429,"gpu_mem":5368709120}`,
		`{"limits":{"nvidia.com/mig-7g.80gb":"2"}}`:                       `{"tasks":1,"gpu":2,"gpu_mem":85899345920}`,
		`{"limits":{"nvidia.com/mig-4g.40gb":"2"}}`:                       `{"tasks":1,"gpu":2,"gpu_mem":42949672960}`,
		`{"requests":{"cpu":"1e-1","memory":"1G"}}`:                       `{"tasks":1,"cpu":0.1,"mem":1000000000}`,
		`{"requests":{"cpu":"1500m","memory":"128974848"},"limits":{}}`:   `{"tasks":1,"cpu":1.5,"mem":128974848}`,
		`{"requests":{"cpu":"2","ephemeral-storage":"10Gi"}}`:             `{"tasks":1,"cpu":2}`,
		`{"requests":{"cpu":"100n","memory":"1Ki","nvidia.com/gpu":"1"}}`: `{"tasks":1,"gpu":1,"mem":1024}`,
	} {
		entries, _ := readText(t, podList(podOf("p", "", resources, "Succeeded", 0, 1, 2)), trace.Options{AnyType: true})
		if got := lines(t, entries); len(got) != 1 || !strings.Contains(got[0], `"roles":[`+want+`]`) {
			t.Errorf("%s:\n have %s\n want %s", resources, got, want)
		}
	}
	for _, resources := range []string{`{"limits":{"cpu":"many"}}`, `{"limits":{"cpu":"-1"}}`, `{"limits":{"nvidia.com/gpu":"9999999"}}`} {
		_, err := trace.NewReader(strings.NewReader(podList(podOf("p", "", resources, "Succeeded", 0, 1, 2))), "pods.json", trace.Options{})
		if err == nil || !strings.Contains(err.Error(), "team-a/p") {
			t.Errorf("%s: %v", resources, err)
		}
	}
	for _, text := range []string{`{"items":[`, `{"items":[{"metadata":1}]}`, `{"items":{}}`, `{"kind":"List","items":[{"metadata":{"creationTimestamp":"x"}}]}`} {
		if _, err := trace.NewReader(strings.NewReader(text), "pods.json", trace.Options{Format: "pods"}); err == nil {
			t.Errorf("%s is no error", text)
		}
	}
}

// Pods of more roles than a job may have are one role for each size; of more sizes, the job
// is refused, with its name.
func TestPodsOfManyRoles(t *testing.T) {
	var same, unlike []string
	for i := range job.MaxRoles + 1 {
		meta := labels("jobset.sigs.k8s.io/jobset-name", "set", "jobset.sigs.k8s.io/replicatedjob-name", fmt.Sprintf("part%d", i))
		same = append(same, podOf(fmt.Sprintf("same-%d", i), meta, fmt.Sprintf(`{"limits":{"nvidia.com/gpu":"%d"}}`, 1+i%2), "Succeeded", 0, 1, 2))
		unlike = append(unlike, podOf(fmt.Sprintf("unlike-%d", i), meta, fmt.Sprintf(`{"limits":{"nvidia.com/gpu":"%d"}}`, 1+i), "Succeeded", 0, 1, 2))
	}
	entries, _ := readText(t, podList(same...), trace.Options{AnyType: true})
	if got := lines(t, entries); len(got) != 1 || !strings.Contains(got[0], `"roles":[{"name":"part1","tasks":4,"gpu":2},{"name":"part0","tasks":5,"gpu":1}]`) {
		t.Errorf("many roles of two sizes are %s", got)
	}
	_, err := trace.NewReader(strings.NewReader(podList(unlike...)), "pods.json", trace.Options{})
	if want := "has pods of 9 sizes, at most 8 are read"; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "set") {
		t.Errorf("many sizes: %v, want %s", err, want)
	}
}

// TestPodsOfNorn: a gang that Norn ran is one job, and what the runtime and the sidecars
// take counts.
func TestPodsOfNorn(t *testing.T) {
	gang := labels("norn-scheduler.github.io/gang", "g", "batch.kubernetes.io/job-name", "j")
	one := strings.Replace(podOf("p", gang, gpu1, "Succeeded", 0, 1, 2), `"spec":{`,
		`"spec":{"overhead":{"cpu":"250m"},"initContainers":[{"restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}},{"resources":{"requests":{"cpu":"2"}}}],`, 1)
	entries, _ := readText(t, podList(one, strings.Replace(one, `"name":"p"`, `"name":"q"`, 1)), trace.Options{AnyType: true})
	if got := lines(t, entries); len(got) != 1 || !strings.Contains(got[0], `"job":"team-a/g"`) || !strings.Contains(got[0], `"roles":[{"tasks":2,"gpu":1,"cpu":3.25,"mem":17179869184}]`) {
		t.Errorf("%s", got)
	}
}

// TestPodsAffinity reads GPU types from a required node affinity.
func TestPodsAffinity(t *testing.T) {
	pod := strings.Replace(podOf("p", "", gpu1, "Succeeded", 0, 1, 2), `"nodeSelector":{"nvidia.com/gpu.product":"NVIDIA-A100"}`,
		`"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.product","operator":"In","values":["H100","A100"]},{"key":"zone","operator":"In","values":["x"]}]}]}}}`, 1)
	entries, _ := readText(t, podList(pod), trace.Options{})
	if len(entries) != 1 || entries[0].Job.Demand.Types != "H100|A100" {
		t.Errorf("%v", lines(t, entries))
	}
}
