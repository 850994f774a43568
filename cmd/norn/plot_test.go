package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlot draws figures from a result as a user does.
func TestPlot(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	res := at("results")
	works(t, "sim", file(t, "jobs.csv", jobs), "--cluster", "1x8", "--policy", "fifo,srtf", "--out", res, "--decisions", "--quiet")
	out, errOut := works(t, "plot", res, "-o", at("figures"))
	if want := "norn: wrote " + at("figures") + ": jct, jct-tail, wait, wait-tail, jct-class, wait-class, bars, fairness, decisions, utilisation, queue, demand, idle, causes, held, fragmentation, gantt, each as svg, pdf, csv\n"; out != "" || errOut != want {
		t.Errorf("%q, %q", out, errOut)
	}
	files, err := os.ReadDir(at("figures"))
	if err != nil || len(files) != 3*17 {
		t.Errorf("%d files, %v", len(files), err)
	}
	works(t, "plot", res, "-f", "bars", "-o", at("bars.pdf"), "--data", at("bars.csv"), "--run", "srtf", "--run", "fifo", "--label", "srtf=SRTF", "--label", "fifo=FIFO", "--baseline", "srtf", "--metric", "jct_mean_s", "-q")
	data, err := os.ReadFile(at("bars.csv"))
	if lines := strings.Split(string(data), "\n"); err != nil || len(lines) != 4 || lines[1] != ",,,,jct_mean_s,SRTF,SRTF,1,1,," || !strings.HasPrefix(lines[2], ",,,,jct_mean_s,FIFO,SRTF,1,") {
		t.Errorf("%v, %s", err, data)
	}
	if pdf, err := os.ReadFile(at("bars.pdf")); err != nil || !bytes.HasPrefix(pdf, []byte("%PDF-")) {
		t.Errorf("%v, %.20s", err, pdf)
	}
	works(t, "plot", filepath.Join(res, "srtf"), "-f", "gantt", "-o", at("gantt.svg"), "-w", "84mm", "--height", "5cm", "-q")
	if svg, err := os.ReadFile(at("gantt.svg")); err != nil || !bytes.Contains(svg[:200], []byte(`width="238.11pt" height="141.73pt"`)) {
		t.Errorf("%v, %.200s", err, svg)
	}
	for line, want := range map[string]string{
		"plot " + res + " -f jcd":                        "--figure jcd: there is no such figure; did you mean jct?",
		"plot " + res + " -w wide":                       `--width: "wide" is no length from 36pt to 100in`,
		"plot " + res + " --size 1":                      "--size 1: write 4 to 48 points",
		"plot " + res + " --by colour":                   "--by colour: write one of gpus, length, tenant, user, model, type",
		"plot " + res + " --run x":                       "--run x: no run is called that: there are fifo, srtf",
		"plot " + res + " --label x":                     "--label x: write name=label",
		"plot " + res + " --format png":                  "--format png: write one of svg, pdf",
		"plot " + res + " --data " + at("x.csv"):         "--data is of one figure",
		"plot " + res + " -f jct,wait -o " + at("x.pdf"): "name one figure with --figure for a file",
		"plot": "requires at least 1 arg(s)",
	} {
		if out, errOut, code := norn(t, strings.Fields(line)...); code != exitUsage || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("norn %s: exit code %d, %q, %q, want %q", line, code, out, errOut, want)
		}
	}
	decisions, err := os.ReadFile(filepath.Join(res, "fifo", "decisions.csv"))
	if lines := strings.Split(string(decisions), "\n"); err != nil || len(lines) < 6 || lines[0] != "t_s,decision_us,waiting_jobs,running_jobs" || !strings.HasPrefix(lines[1], "0,") || !strings.HasSuffix(lines[1], ",1,0") {
		t.Errorf("%v, %s", err, decisions)
	}
	if _, errOut, code := norn(t, "sim", "--decisions"); code != exitUsage || !strings.Contains(errOut, "--decisions goes into a folder") {
		t.Errorf("exit code %d, %q", code, errOut)
	}
	works(t, "sim", "--from-summary", filepath.Join(res, "srtf", "summary.json"), "--out", res, "--quiet") // in the place of a folder with decisions
	for line, want := range map[string]string{
		"plot " + dir:                                            "has no results of norn sim --out",
		"plot " + res + " -f load -o " + at("x"):                 "figure load: there are no data for it: no sweep has runs at several loads",
		"plot " + res + " -f jct -o " + at("x.svg") + " -w 36pt": "figure jct: the axes have no room",
	} {
		if out, errOut, code := norn(t, strings.Fields(line)...); code != exitFailed || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("norn %s: exit code %d, %q, %q, want %q", line, code, out, errOut, want)
		}
	}
}
