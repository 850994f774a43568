package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/internal/testenv"
)

// TestMain lets this program stand in for norn-kube, which would take long to link.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "norn-kube" {
		if err := up(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// up is norn kube up.
func up(args []string) error {
	set := flag.NewFlagSet("up", flag.ContinueOnError)
	file, state := set.String("kubeconfig", "", ""), set.String("state", "", "")
	if err := set.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg, name, err := kube.Connect(false, *file, "")
	if err != nil {
		return err
	}
	client, err := kube.Client(cfg)
	if err != nil {
		return err
	}
	if err := kube.MakeNamespace(ctx, client, "norn-system"); err != nil {
		return err
	}
	return kube.Serve(ctx, &kube.Election{Client: client, Namespace: "norn-system", Identity: "test"},
		kube.Options{Client: client, Name: name, State: *state, Policy: experiment.Choice{Policy: "fifo"}},
		server.Config{Socket: filepath.Join(*state, "norn.sock")}, kube.Doors{})
}

// TestSmoke: the limit and Norn bind all pods of a small load, and no gang in part.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("starts control planes: not under -short")
	}
	b := &bench{dir: t.TempDir(), rounds: 1, began: time.Now()}
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, b.bin("norn-kube"))
	}
	if err != nil {
		t.Fatal(err)
	}
	err = b.paces(t.Context(), "B2", "6 gangs of 4 bare pods", load{pods: 24, gang: 4, nodes: 3}, 0.85)
	if errors.Is(err, testenv.ErrMissing) && os.Getenv(testenv.Required) != "required" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(b.rows) != 3 {
		t.Fatalf("%d rows", len(b.rows))
	}
	for _, name := range []string{"limit", "norn"} {
		p := b.rows[0].Paces[name]
		if len(p) != 1 || p[0].Pods != 24 || p[0].Whole != 6 || p[0].Part != 0 || p[0].Bound <= 0 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	page := filepath.Join(t.TempDir(), "page.md")
	const old = "before\n<!-- kube: written by make bench-kube -->\nold\n<!-- kube: end -->\nafter\n"
	if err := os.WriteFile(page, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.tell(page, filepath.Join(t.TempDir(), "all.json")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if s := string(text); err != nil || strings.Contains(s, "old") || !strings.Contains(s, "| B2 | 6 gangs of 4 bare pods |") || !strings.HasPrefix(s, "before\n") || !strings.HasSuffix(s, "after\n") {
		t.Errorf("%s, %v", s, err)
	}
}

// TestPacking: the gangs fill all nodes in each of nine waves.
func TestPacking(t *testing.T) {
	gangs, slots, wave := 0, 0, 0
	for _, s := range packing {
		for range s.gangs {
			gangs, slots, wave = gangs+1, slots+s.nodes, wave+s.nodes
			if wave > 32 {
				t.Errorf("gang %d of %d nodes does not fit into its wave", gangs, s.nodes)
			}
			wave %= 32
		}
	}
	if gangs != 53 || slots != 288 {
		t.Errorf("%d gangs, %d slots", gangs, slots)
	}
}

// TestScenarios: names are told apart, and an unknown one is an error.
func TestScenarios(t *testing.T) {
	names := map[string]bool{}
	for _, s := range scenarios() {
		if names[s.name] || s.what == "" || s.run == nil {
			t.Errorf("%+v", s)
		}
		names[s.name] = true
	}
	b := &bench{}
	if err := b.all(t.Context(), scenarios(), "B1,none", "", false); err == nil || !strings.Contains(err.Error(), "none") {
		t.Error(err)
	}
}
