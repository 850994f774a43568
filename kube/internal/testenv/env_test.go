package testenv

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func client(t *testing.T, c *rest.Config) kubernetes.Interface {
	t.Helper()
	k, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func put(ctx context.Context, k kubernetes.Interface, name string) error {
	_, err := k.CoreV1().ConfigMaps("default").Create(ctx, &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: name}}, meta.CreateOptions{})
	return err
}

// TestEnv: a control plane knows who asks, holds her to her rights, writes down what is
// written, and keeps all through the end of its programs.
func TestEnv(t *testing.T) {
	e := Start(t, Audit("Metadata"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	admin := client(t, e.Config())
	if err := put(ctx, admin, "one"); err != nil {
		t.Fatal(err)
	}
	file, err := clientcmd.BuildConfigFromFlags("", e.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := put(ctx, client(t, file), "two"); err != nil {
		t.Error(err)
	}
	other, err := e.As("system:serviceaccount:norn:norn", "system:authenticated")
	if err != nil {
		t.Fatal(err)
	}
	if err := put(ctx, client(t, other), "three"); !errors.IsForbidden(err) || !strings.Contains(err.Error(), "system:serviceaccount:norn:norn") {
		t.Errorf("a user without rights: %v", err)
	}
	for _, p := range []*Process{e.APIServer(), e.Etcd()} {
		was := p.PID()
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if p.PID() != 0 {
			t.Errorf("%s runs as %d", p.name, p.PID())
		}
		if err := p.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if p.PID() == was || p.Start(ctx) == nil {
			t.Errorf("%s was not started once", p.name)
		}
	}
	list, err := admin.CoreV1().ConfigMaps("default").List(ctx, meta.ListOptions{LabelSelector: "!none"})
	if err != nil || len(list.Items) < 2 {
		t.Errorf("%d objects are left, %v", len(list.Items), err)
	}
	text, err := os.ReadFile(e.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	creates := bytes.Count(text, []byte(`"verb":"create"`)) // and those of the API server itself
	refused := bytes.Count(text, []byte(`"code":403`))
	if creates < 3 || refused != 1 || bytes.Contains(text, []byte(`"verb":"list"`)) {
		t.Errorf("%d creates, %d refused", creates, refused)
	}
	pids := []int{e.APIServer().PID(), e.Etcd().PID()}
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
	if e.APIServer().PID() != 0 || e.Etcd().PID() != 0 {
		t.Errorf("%v run still", pids)
	}
	if err := put(ctx, admin, "four"); err == nil {
		t.Error("who was stopped answers")
	}
}
