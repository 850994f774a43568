package clusterimport

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/trace/clusterspec"
)

var update = flag.Bool("update", false, "write testdata anew")

// of reads files of testdata.
func of(t testing.TB, names ...string) []File {
	t.Helper()
	var out []File
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, File{Name: name, Text: text})
	}
	return out
}

// text is all of a result.
func text(r *Result) string {
	var b strings.Builder
	b.Write(r.Spec.YAML())
	fmt.Fprintf(&b, "policy: %s\nstop: %s\n", r.Policy, r.Stop)
	for _, s := range r.Read {
		fmt.Fprintf(&b, "read: %s\n", s)
	}
	for _, s := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", s)
	}
	for _, l := range r.Lost {
		fmt.Fprintf(&b, "lost: %s: %d\n", l.What, l.Times)
	}
	return b.String()
}

// TestImport compares what becomes of whole sets of files with testdata. The order of the
// files makes no difference.
func TestImport(t *testing.T) {
	for name, files := range map[string][]string{
		"all": {"nodes.txt", "slurm.conf", "assoc.txt", "qos.txt", "sinfo.txt"}, "conf": {"slurm.conf"}, "json": {"nodes.json"}, "sinfo": {"sinfo.txt"},
	} {
		in := of(t, files...)
		r, err := Import(in, Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, path := text(r), filepath.Join("testdata", name+".want")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || got != string(want) {
			t.Errorf("%s: have\n%s\nwant\n%s (%v)", name, got, want, err)
		}
		for i := range len(in) / 2 {
			in[i], in[len(in)-1-i] = in[len(in)-1-i], in[i]
		}
		if again, err := Import(in, Options{}); err != nil || text(again) != got {
			t.Errorf("%s: in another order of files: %v", name, err)
		}
		back, err := clusterspec.ParseYAML("c.yaml", r.Spec.YAML())
		if err != nil || string(back.YAML()) != string(r.Spec.YAML()) {
			t.Errorf("%s: the description is read as another one: %v", name, err)
		}
	}
}

// TestPools: partitions that do not overlap become pools where that is asked for.
func TestPools(t *testing.T) {
	conf := "NodeName=a[1-2] Gres=gpu:2\nNodeName=b1 Gres=gpu:4\nNodeName=c1 CPUs=8\nPartitionName=one Nodes=a[1-2]\nPartitionName=two Nodes=b1\n"
	r, err := Import([]File{{"slurm.conf", []byte(conf)}}, Options{Pools: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range r.Spec.Nodes {
		got = append(got, fmt.Sprint(g.Name, " ", g.Count, " ", g.Partition, " ", len(g.Labels)))
	}
	if s := strings.Join(got, ", "); s != "a{1} 2 one 0, b1 1 two 0, c1 1  0" {
		t.Error(s)
	}
	_, err = Import([]File{{"slurm.conf", []byte(conf + "PartitionName=all Nodes=ALL\n")}}, Options{Pools: true})
	if err == nil || !strings.Contains(err.Error(), "partitions one and all have nodes in common") {
		t.Error(err)
	}
}

// TestSets: partitions name nodes by ALL, by NodeSets, and by features.
func TestSets(t *testing.T) {
	conf := `NodeName=a[1-2] Feature=fast,new
NodeName=b1 Feature=new
NodeSet=quick Feature=fast
NodeSet=some Nodes=a2,b1
partitionname=all nodes=ALL
PartitionName=quick Nodes=quick
PartitionName=mixed Nodes=some,a1
PartitionName=lost Nodes=z1
`
	r, err := Import([]File{{"slurm.conf", []byte(conf)}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	yaml := string(r.Spec.YAML())
	for _, want := range []string{`name: "a{1}"`, `labels: ["fast=", "new=", "partition/all=", "partition/mixed=", "partition/quick="]`, `labels: ["new=", "partition/all=", "partition/mixed="]`} {
		if !strings.Contains(yaml, want) {
			t.Errorf("no %s in\n%s", want, yaml)
		}
	}
	if len(r.Lost) != 1 || r.Lost[0] != (Loss{"nodes of partitions that no file describes", 1}) || r.Policy != "" {
		t.Errorf("lost %v, policy %q", r.Lost, r.Policy)
	}
}

// TestScontrol: partitions and settings as scontrol shows them, and a tree of accounts.
func TestScontrol(t *testing.T) {
	nodes := "NodeName=n1 CPUTot=8 RealMemory=1000 Gres=gpu:2 State=IDLE\nNodeName=n2 CPUTot=8 RealMemory=1000 Gres=gpu:2 State=IDLE Partitions=low,high\n"
	partitions := "PartitionName=high\n   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL\n   Nodes=n2\n   PriorityJobFactor=1 PriorityTier=5 State=UP TotalCPUs=8 TotalNodes=1\n\n" +
		"PartitionName=low\n   AllowGroups=ALL AllowAccounts=a,b MaxTime=UNLIMITED\n   Nodes=n[1-2] PriorityJobFactor=1 PriorityTier=1 TotalNodes=2\n"
	config := "Configuration data as of 2026-01-01T00:00:00\nPreemptMode             = SUSPEND,GANG\nPreemptType             = preempt/partition_prio\nPriorityType = priority/basic\nPriorityWeightAge = 9\nPriorityDecayHalfLife   = 00:00:00\nSchedulerType = sched/builtin\n"
	tree := "Cluster|Account|User|Partition|Share|GrpTRES\nc1|root|||1|\nc1| top|||3|\nc1|  below|||parent|gres/gpu=2\nc1|  below|ann||1|\nc1| zero|||0|\nc2| other|||1|\n"
	r, err := Import([]File{{"p", []byte(partitions)}, {"c", []byte(config)}, {"n", []byte(nodes)}, {"t", []byte(tree)}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "slurm(partitions=high:1:5,preempt=partition,half-life=never,mode=strict)"; r.Policy != want || r.Stop != "freeze" {
		t.Errorf("policy %s, stop %s, want %s", r.Policy, r.Stop, want)
	}
	yaml := string(r.Spec.YAML())
	want := "tenants:\n  - name: top\n    weight: 3\n  - name: below\n    parent: top\n    limit: 2\n  - name: zero\n    weight: 0.001\n"
	if !strings.Contains(yaml, want) || !strings.Contains(yaml, `labels: ["partition/high=", "partition/low="]`) {
		t.Errorf("%s\nwant\n%s", yaml, want)
	}
	var lost []string
	for _, l := range r.Lost {
		lost = append(lost, l.What)
	}
	if got := strings.Join(lost, ", "); got != "AllowAccounts of partitions, Share=parent of accounts, associations of other clusters" {
		t.Error(got)
	}
}

// TestAssociations: limits of accounts and of users in them are settings of the policy, but for the GPUs of an account, which
// its tenant has; what cannot be taken over is counted.
func TestAssociations(t *testing.T) {
	text := "Account|User|Partition|Share|GrpTRES|GrpJobs|MaxJobs|MaxTRES|MaxSubmit\n" +
		"root||||gres/gpu=90||-1||\n" +
		"nlp|||1|cpu=8,gres/gpu=64|20|4|gres/gpu=8|\n" +
		"nlp|ann||1|gres/gpu=8||2||\n" +
		"nlp|ann|gpu|1|gres/gpu=4||||9\n" +
		"nlp|bob||1||||node=2|\n" +
		"nlp|ann||1|gres/gpu=9||||\n" +
		"off|||1|gres/gpu=0||||\n"
	r, err := Import([]File{{"nodes", []byte("NodeName=a CPUTot=1 RealMemory=1 Gres=gpu:v100:4\n")}, {"assoc", []byte(text)}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "slurm(accounts=root:90,nlp::20:4:8,nlp/ann:8::2,off:0)"; r.Policy != want {
		t.Errorf("policy %s, want %s", r.Policy, want)
	}
	if yaml := string(r.Spec.YAML()); !strings.Contains(yaml, "  - name: nlp\n    limit: 64\n") {
		t.Errorf("%s", yaml)
	}
	lost := map[string]int{}
	for _, l := range r.Lost {
		lost[l.What] = l.Times
	}
	want := map[string]int{"GrpTRES cpu of associations": 1, "MaxSubmit of associations": 1, "MaxTRES node of associations": 1, "limits of associations that are told again": 1, "limits of users in one partition": 1}
	if !maps.Equal(lost, want) {
		t.Errorf("lost %v, want %v", lost, want)
	}
}

// TestCycle: QOSs that may preempt each other have nobody preempted, and that is told.
func TestCycle(t *testing.T) {
	conf, qos := "NodeName=a\nPreemptType=preempt/qos\nPreemptMode=CANCEL\n", "Name|Priority|Preempt\na|1|b\nb|2|a\n"
	r, err := Import([]File{{"c", []byte(conf)}, {"q", []byte(qos)}}, Options{})
	if err != nil || r.Policy != "slurm" || !strings.Contains(strings.Join(r.Notes, "\n"), "nobody is preempted: qoses: jobs of ") {
		t.Errorf("%v, %+v", err, r)
	}
}

// TestErrors: an error names the file, the line and what is wrong there.
func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"hello\n": "x: is nothing that can be imported; known are scontrol show node --json,",
		"NodeName=a CPUs=many\nPartitionName=p Nodes=a\n": "x (slurm.conf): line 1: CPUs=many: a number is expected",
		"#\nNodeName=a[3-1]\n":                            `line 2: hosts "a[3-1]": write names such as gpu[001-016,020]`,
		"NodeName=a[1-9999999]\n":                         "write names such as",
		"NodeName=a[1-300][1-300][1-300]\n":               "write names such as",
		"NodeName=a[1\n":                                  "write names such as",
		"NodeName=a Gres=gpu:-1\n":                        `line 1: "gpu:-1": -1 GPUs of a node`,
		"PartitionName=p PriorityTier=x\n":                "PriorityTier=x: a whole number up to 65535 is expected",
		"PartitionName=p Nodes=a\n":                       "no file tells of nodes",
		"Account|Share|User\na|x|\n":                      "line 2: account a: a share of x, a number is expected",
		"Account|Share|User|GrpTRES\na|1||gres/gpu=x\n":   "association a: GrpTRES=gres/gpu=x, a whole number is expected",
		"Account|Share|User\na|1\n":                       "line 2: 2 fields, and the header has 3",
		"Name|Priority\nq|x\n":                            "line 2: QOS q: a priority of x",
		`{"nodes":[{"name":"a","cpus":-1}]}`:              "node 1 of the list",
		`{"nodes":[{"name":"a","cpus":"x"}]}`:             "cannot unmarshal",
		"NODELIST CPUS PARTITION\na x p\n":                "line 2: CPUS x: a number is expected",
		"NODELIST CPUS PARTITION\na x\n":                  "line 2: 2 fields, and the header has 3",
		"NodeName={a}\n":                                  "write names such as",
		"NodeName=a CPUTot=1 RealMemory=x\n":              "line 1: RealMemory=x: a number is expected",
	} {
		_, err := Import([]File{{"x", []byte(text)}}, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestHosts(t *testing.T) {
	for list, want := range map[string]string{
		"gpu[001-003,020],login": "gpu001 gpu002 gpu003 gpu020 login", "r[1-2]n[08-10]": "r1n08 r1n09 r1n10 r2n08 r2n09 r2n10", "": "", "a,,b": "a b", "x[5]y": "x5y",
	} {
		got, err := hosts(list)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v", list, got, err)
		}
	}
}

func TestSlurmTime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"5": 5 * time.Minute, "5:30": 330 * time.Second, "1:00:00": time.Hour, "7-0": 168 * time.Hour, "1-2:30": 26*time.Hour + 30*time.Minute, "1-00:00:05": 24*time.Hour + 5*time.Second,
		"": -1, "x": -1, "-5": -1, "1:2:3:4": -1, "99999999999": -1, "40000-0": -1,
	} {
		if got, ok := slurmTime(text); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
}

// FuzzImport imports anything: nothing panics, an error names the file, and what comes out is a
// description that is read as the same one again, with a policy that can be made.
func FuzzImport(f *testing.F) {
	for _, x := range of(f, "nodes.txt", "nodes.json", "slurm.conf", "assoc.txt", "qos.txt", "sinfo.txt") {
		f.Add(x.Text, false)
		f.Add(x.Text[:len(x.Text)/2], true)
	}
	conf := of(f, "slurm.conf")[0]
	f.Fuzz(func(t *testing.T, text []byte, pools bool) {
		if len(text) > 1<<14 {
			t.Skip("too long to be of use")
		}
		for _, files := range [][]File{{{"fuzz", text}}, {{"fuzz", text}, conf}} {
			r, err := Import(files, Options{Pools: pools})
			if err != nil {
				continue
			}
			back, err := clusterspec.ParseYAML("fuzz", r.Spec.YAML())
			if err != nil || string(back.YAML()) != string(r.Spec.YAML()) {
				t.Fatalf("is read as another one: %v\n%s", err, r.Spec.YAML())
			}
			if _, err := r.Spec.Build(); err != nil {
				t.Fatalf("cannot be built: %v\n%s", err, r.Spec.YAML())
			}
		}
	})
}

// TestLimitsOfQOSs: limits of GPUs and of running jobs are taken over, others are told of.
func TestLimitsOfQOSs(t *testing.T) {
	const head = "Name|Priority|GrpTRES|MaxTRES|MaxTRESPU|MaxJobsPU\n"
	r, err := Import([]File{{"c", []byte("NodeName=a\n")}, {"q", []byte(head + "normal|1|cpu=9,gres/gpu=64|gres/gpu=4|gres/gpu=8|5\nfree|1||||\nsmall|0|||gres/gpu=0|-1\nmany|0||||7\n")}}, Options{})
	if err != nil || r.Policy != "slurm(limits=normal:64:8:5:4,small::0,many:::7)" {
		t.Errorf("%v, %+v", err, r)
	}
	var lost []string
	for _, l := range r.Lost {
		lost = append(lost, l.What)
	}
	if got := strings.Join(lost, ", "); got != "GrpTRES cpu of QOSs" {
		t.Error(got)
	}
	if _, err := Import([]File{{"c", []byte("NodeName=a\n")}, {"q", []byte(head + "normal|1|gres/gpu=x|||\n")}}, Options{}); err == nil || !strings.Contains(err.Error(), "QOS normal: GrpTRES=gres/gpu=x, a whole number is expected") {
		t.Error(err)
	}
}
