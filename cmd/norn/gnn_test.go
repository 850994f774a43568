package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Partitions are compared, of a graph that is made and of one in a file, and written. Two cliques
// with an edge between them are cut there.
func TestGNNPartition(t *testing.T) {
	out, _ := works(t, "gnn", "partition", "--vertices", "2000", "--edges", "10000", "--communities", "8", "--parts", "4")
	for _, want := range []string{"2000 vertices, 10000 edges", "hash ", "bytegnn ", "multilevel "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	edges := file(t, "edges.txt", "# two triangles\n0 1\n1 2\n2 0\n\n3 4\n4 5\n5 3\n0 3\n")
	parts := filepath.Join(t.TempDir(), "parts.txt")
	out, _ = works(t, "gnn", "partition", edges, "--parts", "2", "--train", "1", "--method", "multilevel", "--out", parts)
	text, err := os.ReadFile(parts)
	lines := strings.Fields(string(text))
	if err != nil || len(lines) != 6 || lines[0] != lines[1] || lines[1] != lines[2] || lines[3] != lines[4] || lines[4] != lines[5] || lines[0] == lines[3] {
		t.Errorf("%q, %v\n%s", text, err, out)
	}
	for _, args := range [][]string{
		{file(t, "bad.txt", "0 1\n1 x\n")}, {file(t, "three.txt", "0 1 2\n")}, {file(t, "empty.txt", "")}, {"no-such-file"},
		{"--parts", "0"}, {"--hops", "-1"}, {"--train", "2"}, {"--vertices", "0"}, {"--out", "x"}, {"--method", "metis"},
	} {
		if _, errOut, code := norn(t, append([]string{"gnn", "partition"}, args...)...); code == 0 || errOut == "" {
			t.Errorf("%q was let through", args)
		}
	}
}

// The balanced split of 16 cores is found, and the rates are those that are foretold.
func TestGNNPipeline(t *testing.T) {
	out, _ := works(t, "gnn", "pipeline", "--cores", "16", "--batches", "400", "--course")
	rows := map[string][]string{}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 4 {
			rows[f[0]] = f
		}
	}
	if p, f := rows["piped"], rows["fixed"]; p == nil || p[2] != "4.000" || f == nil || f[2] != "2.667" || rows["coupled"] == nil || !strings.Contains(out, "ready batches") {
		t.Errorf("%s", out)
	}
	for _, args := range [][]string{{"--cores", "1"}, {"--hops", "0"}, {"--sampling", "-1"}, {"--training", "0"}, {"--batches", "1"}} {
		if _, errOut, code := norn(t, append([]string{"gnn", "pipeline"}, args...)...); code == 0 || errOut == "" {
			t.Errorf("%q was let through", args)
		}
	}
}
