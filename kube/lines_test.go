//go:build unix

package kube_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/kube/internal/fakekubelet"
	"github.com/norn-scheduler/norn/kube/internal/testenv"
)

// TestMain lets this program stand in for kubectl where a machine has none.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kubectl" {
		if err := kubectl(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "kubectl:", err)
			os.Exit(1)
		}
		return
	}
	if text := os.Getenv(settings); text != "" {
		if err := lead(text); err != nil {
			fmt.Fprintln(os.Stderr, "norn:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// kubectl makes the Job of a file: kubectl apply -f FILE.
func kubectl(args []string) error {
	if len(args) != 3 || args[0] != "apply" || args[1] != "-f" {
		return fmt.Errorf("this stand-in cannot %s", strings.Join(args, " "))
	}
	text, err := os.ReadFile(args[2])
	if err != nil {
		return err
	}
	j := &batch.Job{}
	if err := yaml.UnmarshalStrict(text, j); err != nil {
		return err
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	_, err = client.BatchV1().Jobs("default").Create(context.Background(), j, meta.CreateOptions{FieldValidation: meta.FieldValidationStrict})
	return err
}

// section is a block of commands of a page.
func section(t *testing.T, page, name string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "<!-- command: "+name+" -->\n```sh\n")
	block, _, found := strings.Cut(block, "```\n")
	if !found {
		t.Fatalf("%s has no commands %s", page, name)
	}
	return strings.Split(strings.TrimSpace(block), "\n")
}

// TestFiveLines: what README.md says of a Kubernetes cluster works, word for word.
func TestFiveLines(t *testing.T) {
	lines := section(t, "../README.md", "kubernetes")
	if again := section(t, "../docs/kubernetes.md", "kubernetes"); strings.Join(lines, "\n") != strings.Join(again, "\n") || len(lines) != 5 {
		t.Fatalf("README.md has %q, docs/kubernetes.md %q", lines, again)
	}
	env := testenv.Start(t, testenv.ControllerManager(testenv.Raised()...))
	nodes := fakekubelet.Nodes("n", 2, fakekubelet.Shape(8, 64, 512, 110), map[string]string{"nvidia.com/gpu.product": "A100"})
	kubelet, err := fakekubelet.Start(t.Context(), env.Config(), fakekubelet.Options{Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	defer kubelet.Stop()
	dir, err := os.MkdirTemp("", "nk-") // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o777); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(bin, "kubectl"))
	}
	if err != nil {
		t.Fatal(err)
	}
	run := func(line string) (string, error) {
		c := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", line)
		c.Dir = ".."
		c.Env = append(os.Environ(), "GOBIN="+bin, "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+env.Kubeconfig(), "XDG_STATE_HOME="+dir)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	for _, line := range lines[:3] {
		out, err := run(line)
		if pid := regexp.MustCompile(`process (\d+)`).FindStringSubmatch(out); pid != nil {
			n, _ := strconv.Atoi(pid[1])
			defer ends(t, n, filepath.Join(dir, "norn-kube", "norn-testenv", "norn.sock"))
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		out, err := run(lines[3])
		if err == nil && strings.Contains(out, "default/bert") && strings.Contains(out, "running") {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%s: %v\n%s", lines[3], err, out)
		}
	}
	if out, err := run(lines[4]); err != nil || !strings.Contains(out, "n-00") {
		t.Errorf("%s: %v\n%s", lines[4], err, out)
	}
}

// ends ends a norn that a command has left in the background.
func ends(t *testing.T, pid int, socket string) {
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(socket); err != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Error("norn kube up does not end")
			syscall.Kill(pid, syscall.SIGKILL)
			return
		}
	}
}

// TestExamples: an API server takes the examples, and Norn starts what they ask for.
func TestExamples(t *testing.T) {
	t.Parallel()
	nodes := fakekubelet.Nodes("n", 2, fakekubelet.Shape(8, 64, 512, 110), map[string]string{"nvidia.com/gpu.product": "A100", "topology.kubernetes.io/rack": "r1"})
	r := newRig(t, nodes, 1, nil)
	files, err := filepath.Glob("../examples/kubernetes/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	want := map[string]int{"default/bert": 4, "default/sweep": 2, "default/pod/notebook": 1, "default/gang/pair": 2}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r.apply(string(text))
	}
	for id := range want {
		r.until(id+" runs", func() bool { return r.state(id) == api.Running })
	}
	jobs, err := r.Jobs(background, me, api.Query{})
	if err != nil || len(jobs) != len(want) {
		t.Errorf("%v, %v", jobs, err)
	}
	r.until("all their pods run", func() bool { return len(r.kubelet.Running()) == 9 })
	if w, err := r.Why(background, me, "default/bert"); err != nil || !strings.Contains(w.Stop, "checkpoint") || w.Job.User != "default" || w.Job.Tenant != "nlp" {
		t.Errorf("%+v, %v", w, err)
	}
}
