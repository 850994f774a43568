package published

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/internal/published/shockwave"
	"github.com/norn-scheduler/norn/internal/shared"
)

// TestManifest carries out every line of the manifest that Norn has. Start, end
// and number of preemptions of every job must be equal, even where the manifest
// asks for less. Exceptions are Shockwave itself, whose programs have many
// optima, and Pollux, which searches at random.
func TestManifest(t *testing.T) {
	longtest.Skip(t)
	lines, err := ReadManifest(shared.Path(t, "golden/manifest.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 166 {
		t.Errorf("the manifest has %d lines, want 166", len(lines))
	}
	ran := map[string]int{}
	err = Validate(t.Context(), lines, func(o *Outcome) {
		name := o.Simulator + " " + filepath.Base(o.Trace) + " " + o.Cluster + " " + o.Policy
		switch {
		case o.Verdict() == Absent:
			exact := o.Match.Rule == Exact
			if s, err := ByName(o.Simulator); err == nil && exact {
				t.Errorf("%s: %s has an exact result that is not there yet", name, s.Title)
			}
		case o.Err != nil:
			t.Errorf("%s: %v", name, o.Err)
		case o.Simulator == "shockwave" && o.Match.Rule == Info && o.Verdict() != OK: // other runs, which the authors shipped
		case o.Policy == "utilityaware" && o.Match.Rule == Info && o.Verdict() == Read && math.Abs(o.MeanJCT) < 0.015: // it has several outcomes (topoaware.TestAddresses)
		case o.Policy == shockwave.Planned || o.Simulator == "sia":
			switch {
			case o.Verdict() == OK:
				ran[o.Simulator]++
			case o.Match.Rule != Info:
				t.Errorf("%s: %s: mean JCT %+.2f %%, makespan %+.2f %%: %s", name, o.Verdict(), 100*o.MeanJCT, 100*o.Makespan, o.Why())
			}
		case o.Verdict() != OK || !o.Exact() || o.Preempt != 0:
			t.Errorf("%s: %s: %d of %d equal: %s", name, o.Verdict(), o.Equal, o.Jobs, o.Why())
		default:
			ran[o.Simulator]++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for simulator, want := range map[string]int{"tiresias": 73, "lucid": 4, "pai": 3, "muri": 9, "gavel": 21, "shockwave": 11, "alloxsim": 4, "mapa": 8, "gpu-topo-aware": 3} {
		if ran[simulator] != want {
			t.Errorf("%d runs of %s are met, want %d", ran[simulator], simulator, want)
		}
	}
}

// The predictions of Helios are found near the trace.
func TestQSSF(t *testing.T) {
	trace := shared.Path(t, "golden/inputs/lucid_synth6000_cluster_full_log.csv.gz")
	r, err := Run(t.Context(), Request{Simulator: "lucid", Trace: trace, Cluster: "venus-15vc", Policy: "qssf"})
	if err != nil || len(r.Rows) != 6000 {
		t.Fatalf("%v, %v", r, err)
	}
	lonely := filepath.Join(t.TempDir(), "log.csv")
	if err := os.WriteFile(lonely, []byte("job_id\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), Request{Simulator: "lucid", Trace: lonely, Cluster: "venus-15vc", Policy: "qssf"}); err == nil || !strings.Contains(err.Error(), "--priorities") {
		t.Errorf("error %v", err)
	}
}

// files writes files into a folder of their own.
func files(t *testing.T, named map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, text := range named {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

const manifestHead = "simulator,trace,format,cluster,policy,result,match,note\n"

// small is two jobs of 8 GPUs on one node, under fifo: 0 to 10 and 10 to 15.
func small(t *testing.T, lines string) []Line {
	t.Helper()
	folder := files(t, map[string]string{
		"trace.csv": "job_id,num_gpu,submit_time,duration\n0,8,0,10\n1,8,1,5\n",
		"same.csv":  "job_id,submit,start,end\n0,0,0,10\n1,1,10,15\n",
		"near.csv":  "job_id,submit,start,end\n0,0,0,10\n1,1,10,15.1\n",
		"spec.csv":  "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n1,1,8,128,256\n",
		"m.csv":     manifestHead + lines,
	})
	all, err := ReadManifest(filepath.Join(folder, "m.csv"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		line    string
		verdict Verdict
		why     string
	}{
		{"tiresias,trace.csv,tiresias,n1g8,fifo-count,same.csv,exact,", OK, ""},
		{"tiresias,trace.csv,tiresias,spec.csv,fifo-yarn,same.csv,exact,a spec in a file", OK, ""},
		{"tiresias,trace.csv,tiresias,n1g8,fifo-count,near.csv,exact,", Differs, "job 1 runs from 10 to 15, there from 10 to 15.1"},
		{"tiresias,trace.csv,tiresias,n1g8,fifo-count,near.csv,mean:1%,", OK, "job 1 runs"},
		{"tiresias,trace.csv,tiresias,n1g8,fifo-count,near.csv,mean:0.1%,", Differs, "job 1 runs"},
		{"tiresias,trace.csv,tiresias,n1g8,fifo-count,near.csv,info,", Read, "job 1 runs"},
		{"tiresias,trace.csv,tiresias,n1g8,fifo-count,same.csv,info,", OK, ""},
		{"tiresias,none.csv,tiresias,n1g8,fifo-count,same.csv,info,", Differs, "none.csv"},
		{"tiresias,trace.csv,tiresias,n1g8,fifo-count,none.csv,info,", Differs, "none.csv"},
		{"tiresias,trace.csv,tiresias,earth,fifo-count,same.csv,exact,", Differs, `unknown cluster "earth"`},
		{"tiresias,trace.csv,tiresias,n1g8,multi-dlas-gpu-count,same.csv,exact,", Absent, "GPUs set aside"},
		{"tiresias,trace.csv,tiresias,n1g8,lifo-count,same.csv,exact,", Absent, "the policy lifo-count"},
		{"lucid,trace.csv,lucid,venus-15vc,lucid,same.csv,exact,", Differs, "policy lucid needs the file venus_sept_ebm_lucid_priority.csv"},
		{"slurm,,,,,,exact,", Absent, "the simulator slurm"},
	} {
		seen := 0
		err := Validate(t.Context(), small(t, c.line+"\n"), func(o *Outcome) {
			seen++
			if o.Verdict() != c.verdict || !strings.Contains(o.Why(), c.why) || (c.why == "") != (o.Why() == "") {
				t.Errorf("%s: %s, %s; want %s, %s", c.line, o.Verdict(), o.Why(), c.verdict, c.why)
			}
		})
		if err != nil || seen != 1 {
			t.Errorf("%s: %d outcomes, %v", c.line, seen, err)
		}
	}
}

func TestValidateInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lines := small(t, strings.Repeat("tiresias,trace.csv,tiresias,n1g8,fifo-count,same.csv,exact,\n", 3))
	if err := Validate(ctx, lines, func(o *Outcome) { t.Errorf("reported %s", o.Policy) }); err == nil {
		t.Error("no error")
	}
}

func TestReadManifestErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "m.csv: is empty"},
		{"simulator,trace,format,cluster,policy,result\n", `m.csv: has no column "match"; it has simulator, trace`},
		{manifestHead + "tiresias,a,b,c,d,e,exact,\n,a,b,c,d,e,exact,\n", "m.csv, line 3, column 1 (simulator): found nothing, expected the name of a simulator"},
		{manifestHead + "tiresias,a,b,c,d,e,near,\n", `m.csv, line 2, column 7 (match): found "near", expected exact, mean:P% or info`},
		{manifestHead + "tiresias,a,b,c,d,e,mean:x%,\n", `line 2, column 7 (match): found "mean:x%"`},
		{manifestHead + "tiresias,a,b,c,d,e,mean:-1%,\n", `found "mean:-1%"`},
		{manifestHead + "tiresias,a,b,c,d,e,mean:NaN%,\n", `found "mean:NaN%"`},
		{manifestHead + "tiresias,a,b,c,d,e,mean:Inf%,\n", `found "mean:Inf%"`},
		{manifestHead + "tiresias,a,b,c,d,e,mean,\n", `found "mean"`},
		{manifestHead + "tiresias,a,b,c,d,e,exact:1%,\n", `found "exact:1%"`},
		{manifestHead + "tiresias,a\n", "column 7 (match): found nothing"},
	} {
		folder := files(t, map[string]string{"m.csv": c.text})
		if _, err := ReadManifest(filepath.Join(folder, "m.csv")); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one that says %s", c.text, err, c.want)
		}
	}
	if _, err := ReadManifest("none.csv"); err == nil || !strings.Contains(err.Error(), "none.csv") {
		t.Errorf("error %v", err)
	}
}

func TestManifestPaths(t *testing.T) {
	absolute, err := filepath.Abs("t.csv")
	if err != nil {
		t.Fatal(err)
	}
	table, err := harness.NewTable("m.csv", manifestHead+"a,x/t.csv.gz,,n1g8,p,../r.csv,mean:0.50%,\"b, c\"\na,"+absolute+",,c/spec.csv,p,r,info,\n")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := readManifest(table, filepath.Join("top", "golden"))
	if err != nil || len(lines) != 2 {
		t.Fatalf("%v, %v", lines, err)
	}
	first, second := &lines[0], &lines[1]
	if first.Trace != filepath.Join("top", "golden", "x", "t.csv.gz") || first.Result != filepath.Join("top", "r.csv") ||
		first.Cluster != "n1g8" || first.Match.String() != "mean:0.5%" || first.Note != "b, c" {
		t.Errorf("%+v", first)
	}
	if second.Trace != absolute || second.Cluster != filepath.Join("top", "golden", "c", "spec.csv") || second.Match.String() != "info" {
		t.Errorf("%+v", second)
	}
}

func TestNames(t *testing.T) {
	if _, err := ByName("slurm"); err == nil || !strings.Contains(err.Error(), "tiresias, muri, lucid, pai") {
		t.Errorf("error %v", err)
	}
	for _, s := range Simulators() {
		if len(s.Policies) == 0 || !s.Has(s.Policies[0].Name) || s.Has("lifo") || s.Title == "" || s.Source == "" || s.Clusters == "" {
			t.Errorf("%+v", s)
		}
		if _, err := Run(t.Context(), Request{Simulator: s.Name, Policy: "lifo"}); err == nil || !strings.Contains(err.Error(), s.Policies[0].Name) {
			t.Errorf("%s: the error %v does not list the known policies", s.Name, err)
		}
		if _, err := Run(t.Context(), Request{Simulator: s.Name, Policy: s.Policies[0].Name, Cluster: "earth"}); err == nil || !strings.Contains(err.Error(), "earth") {
			t.Errorf("%s: the error %v does not name the cluster", s.Name, err)
		}
	}
}

func FuzzReadManifest(f *testing.F) {
	f.Add(manifestHead + "tiresias,t.csv,tiresias,n1g8,fifo-count,r.csv,exact,\n")
	f.Add(manifestHead + "a,\"b\",c,d.csv,e,f,mean:2.5%,g\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := harness.NewTable("m.csv", text)
		if err != nil {
			return
		}
		lines, err := readManifest(table, "folder")
		if err != nil {
			return
		}
		for i := range lines {
			if m, err := ParseMatch(lines[i].Match.String()); err != nil || m != lines[i].Match {
				t.Errorf("%+v is written %s and read as %+v, %v", lines[i].Match, lines[i].Match, m, err)
			}
		}
	})
}
