package slurm_test

import (
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/tenant"
)

// TestLimits: what jobs of a QOS may have together (GrpTRES), those of a user, how many of a user may run, and what
// each may have. A job over a limit waits, and blocks nobody.
func TestLimits(t *testing.T) {
	jobs := []simtest.Job{
		{Key: "u1", GPUs: 2, Run: 100, User: "u", Spec: of("q")}, {Key: "u2", At: 1, GPUs: 2, Run: 100, User: "u", Spec: of("q")},
		{Key: "v1", At: 2, GPUs: 2, Run: 100, User: "v", Spec: of("q")}, {Key: "free", At: 3, GPUs: 2, Run: 100, User: "u"},
	}
	for limits, want := range map[string]string{
		"":        "u1 0, u2 1, v1 2, free 3",
		"q:4":     "u1 0, u2 1, v1 100, free 3",
		"q::2":    "u1 0, u2 100, v1 2, free 3",
		"q::3":    "u1 0, u2 100, v1 2, free 3",
		"q:::1":   "u1 0, u2 100, v1 2, free 3",
		"q::::2":  "u1 0, u2 1, v1 2, free 3",
		"q:2::1":  "u1 0, u2 100, v1 200, free 3",
		"p:0":     "u1 0, u2 1, v1 2, free 3",
		":0,q:8":  "u1 0, u2 1, v1 2, free -1",
		"q::::1":  "u1 -1, u2 -1, v1 -1, free 3",
		"q:::0":   "u1 -1, u2 -1, v1 -1, free 3",
		"q:4:2:1": "u1 0, u2 100, v1 2, free 3",
	} {
		for _, mode := range []string{"easy", "skip", "strict"} {
			settings := []string{"mode=" + mode}
			if limits != "" {
				settings = append(settings, "limits="+limits)
			}
			run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 8), Make: with(settings...)}, jobs...)
			if got := starts(run, jobs); got != want {
				t.Errorf("limits=%s, mode=%s: %s, want %s", limits, mode, got, want)
			}
		}
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 8), Make: with("limits=q:4:::3")}, append(jobs, simtest.Job{Key: "wide", At: 4, GPUs: 4, Run: 1, User: "w", Spec: of("q")})...)
	log := strings.Join(run.Log, "\n")
	for _, line := range []string{
		`2 wait v1: jobs of QOS "q" have 4 of the 4 GPUs that they may have`,
		`4 wait wide: asks for 4 GPUs, more than the 3 that QOS "q" lets it have: it can never run`,
	} {
		if !strings.Contains(log, line) {
			t.Errorf("%q is not in this log:\n%s", line, log)
		}
	}
}

// TestAccounts: what jobs of an account may have together with those of accounts below it (GrpTRES, GrpJobs), how many of a
// user may run (MaxJobs), and what each may have (MaxTRESPerJob). What is told below takes the place of the last two. What
// a QOS limits accounts do not.
func TestAccounts(t *testing.T) {
	jobs := []simtest.Job{
		{Key: "u1", GPUs: 2, Run: 100, User: "u", Tenant: "nlp"}, {Key: "u2", At: 1, GPUs: 2, Run: 100, User: "u", Tenant: "nlp"},
		{Key: "v1", At: 2, GPUs: 1, Run: 100, User: "v", Tenant: "cv", Spec: of("q")}, {Key: "free", At: 3, GPUs: 2, Run: 100, User: "w"},
	}
	for settings, want := range map[string]string{
		"":                              "u1 0, u2 1, v1 2, free 3",
		"accounts=nlp:2":                "u1 0, u2 100, v1 2, free 3",
		"accounts=nlp/u:2":              "u1 0, u2 100, v1 2, free 3",
		"accounts=nlp/v:2,cv/u:0":       "u1 0, u2 1, v1 2, free 3",
		"accounts=lab:4":                "u1 0, u2 1, v1 100, free 3",
		"accounts=lab:4:2":              "u1 0, u2 1, v1 100, free 3",
		"accounts=lab:4,limits=q:8":     "u1 0, u2 1, v1 2, free 3", // GrpTRES of its QOS
		"accounts=lab::2,limits=q:8":    "u1 0, u2 1, v1 100, free 3",
		"accounts=lab::1":               "u1 0, u2 100, v1 200, free 3",
		"accounts=lab:::1":              "u1 0, u2 100, v1 2, free 3",
		"accounts=lab:::1,nlp:::2":      "u1 0, u2 1, v1 2, free 3",
		"accounts=lab:::1,nlp/u:::2":    "u1 0, u2 1, v1 2, free 3",
		"accounts=lab:::0,limits=q:::3": "u1 -1, u2 -1, v1 2, free 3",
		"accounts=lab::::1":             "u1 -1, u2 -1, v1 2, free 3",
		"accounts=lab::::1,nlp::::2":    "u1 0, u2 1, v1 2, free 3",
		"accounts=root::1":              "u1 0, u2 100, v1 200, free 300",
		"accounts=root:4":               "u1 0, u2 1, v1 100, free 101",
		"accounts=nlp:2,limits=:8":      "u1 0, u2 1, v1 2, free 3",
	} {
		for _, mode := range []string{"mode=easy", "mode=skip", "mode=strict"} {
			c := simtest.Config{Cluster: simtest.Nodes(1, 8), Make: with(append(split(settings), mode)...), Tenants: tenant.NewTree(0)}
			lab, err := c.Tenants.Add("lab", tenant.Root, 0, tenant.Unlimited, 1)
			for _, name := range []string{"nlp", "cv"} {
				if err == nil {
					_, err = c.Tenants.Add(name, lab, 0, tenant.Unlimited, 1)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := starts(simtest.Go(t, c, jobs...), jobs); got != want {
				t.Errorf("%s, %s: %s, want %s", settings, mode, got, want)
			}
		}
	}
}

// split is settings with commas between, of which words of a list have some, too.
func split(settings string) (out []string) {
	for part := range strings.SplitSeq(settings, ",") {
		if n := len(out); n > 0 && !strings.Contains(part, "=") {
			out[n-1] += "," + part
		} else if part != "" {
			out = append(out, part)
		}
	}
	return out
}

// TestLimitsAndPreemption: a job that others were stopped for counts, and those that were stopped do not.
func TestLimitsAndPreemption(t *testing.T) {
	jobs := []simtest.Job{
		{Key: "low", GPUs: 4, Run: 100, User: "u", Spec: of("low")}, {Key: "high1", At: 10, GPUs: 2, Run: 10, User: "v", Spec: of("high")},
		{Key: "high2", At: 11, GPUs: 2, Run: 10, User: "w", Spec: of("high")}, {Key: "low2", At: 12, GPUs: 2, Run: 5, User: "u", Spec: of("low")},
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 4), Make: with("preempt=qos", "qoses=high:2:low,low:1", "qos=1", "limits=high:2,low:4")}, jobs...)
	if run.Start("high1") != 10 || run.Start("high2") != 20 || run.Start("low2") != 12 {
		t.Errorf("%s", strings.Join(run.Log, "\n"))
	}
}

// TestLimitsRefused: limits that make no sense are refused.
func TestLimitsRefused(t *testing.T) {
	for limits, want := range map[string]string{"q": "is written", "q:1:2:3:4:5": "is written", "q:x": "is written", "q:-1": "is written", "q:1,q:2": "told once", "q:1.5": "is written"} {
		for _, setting := range []string{"limits", "accounts"} {
			if _, err := with(setting + "=" + limits)(); err == nil || !strings.HasPrefix(err.Error(), setting+": ") || !strings.Contains(err.Error(), want) {
				t.Errorf("%s=%s: %v", setting, limits, err)
			}
		}
	}
}

// TestPreemptsWhoeverSkips: with mode=skip a job that may stop others does so at the next decision, although it came when
// nobody could be stopped, and one of its size that may stop nobody was looked at before it.
func TestPreemptsWhoeverSkips(t *testing.T) {
	jobs := []simtest.Job{
		{Key: "high1", GPUs: 2, Run: 20, User: "v", Spec: of("high")}, {Key: "wait", At: 1, GPUs: 2, Run: 1, User: "w", Spec: of("low")},
		{Key: "high2", At: 2, GPUs: 2, Run: 10, User: "v", Spec: of("high")}, {Key: "high3", At: 25, GPUs: 2, Run: 10, User: "v", Spec: of("high")},
		{Key: "low", At: 31, GPUs: 2, Run: 50, User: "u", Spec: of("low")}, {Key: "high4", At: 45, GPUs: 2, Run: 10, User: "v", Spec: of("high")},
	}
	run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 2), Make: with("mode=skip", "preempt=qos", "qoses=high:1:low,low:2", "qos=1")}, jobs...)
	if run.Start("wait") != 20 || run.Start("high2") != 21 || run.Start("low") != 31 || run.Start("high3") != 45 || run.Start("high4") != 91 {
		t.Errorf("%s", strings.Join(run.Log, "\n"))
	}
}
