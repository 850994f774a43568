package watch

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/norn-scheduler/norn/kube/internal/testenv"
)

// TestChecker: on a real API server an over-commitment and half a gang are seen, and the
// audit log tells whose writes were made and to what.
func TestChecker(t *testing.T) {
	env := testenv.Start(t, testenv.Audit("Metadata"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	admin, err := kubernetes.NewForConfig(env.Config())
	if err != nil {
		t.Fatal(err)
	}
	config, err := env.As("scheduler")
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbac.ClusterRoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: "scheduler"},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "system:kube-scheduler"},
		Subjects:   []rbac.Subject{{Kind: rbac.UserKind, APIGroup: rbac.GroupName, Name: "scheduler"}},
	}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node := &core.Node{ObjectMeta: meta.ObjectMeta{Name: "n"}, Status: core.NodeStatus{Allocatable: amounts(2, 8, 110), Capacity: amounts(2, 8, 110)}}
	if _, err := admin.CoreV1().Nodes().Create(ctx, node, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c, err := Start(ctx, env.Config(), Options{Whole: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*core.Pod{
		made("p", []change{asks(2, 1), of("g", 2)}), made("q", []change{asks(0, 1), of("g", 2)}),
		made("r", []change{asks(1, 1), others}),
	} {
		p.UID, p.Spec.Containers[0].Name, p.Spec.Containers[0].Image = "", "main", "none"
		p.Spec.Containers[0].Resources.Limits = p.Spec.Containers[0].Resources.Requests
		p.Namespace = "default"
		if _, err := admin.CoreV1().Pods("default").Create(ctx, p, meta.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"p", "r"} {
		b := &core.Binding{ObjectMeta: meta.ObjectMeta{Name: name}, Target: core.ObjectReference{Kind: "Node", Name: "n"}}
		err := bind(ctx, scheduler, b)
		if err != nil {
			t.Fatal(err)
		}
	}
	for len(c.Violations()) < 2 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	found := c.Stop()
	for _, want := range []string{"node n: 3 of 2 nvidia.com/gpu", "gang default/g: 1 of 2 pods"} {
		if len(found) != 2 || !strings.Contains(strings.Join(found, "\n"), want) {
			t.Errorf("%q, want %q", found, want)
		}
	}
	writes, err := Audit(env.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	if got := Count(By(writes, "scheduler")); !maps.Equal(got, map[string]int{"create pods/binding": 2}) {
		t.Errorf("%v", got)
	}
	if got := Count(By(writes, "admin")); got["create pods"] != 3 || got["create nodes"] != 1 || got["create clusterrolebindings.rbac.authorization.k8s.io"] != 1 {
		t.Errorf("%v", got)
	}
	if got := c.Touched(writes, "scheduler"); len(got) != 1 || !strings.Contains(got[0], `default/r of scheduler "default-scheduler": create pods/binding, answered 201`) {
		t.Errorf("%q", got)
	}
}

func bind(ctx context.Context, k kubernetes.Interface, b *core.Binding) error {
	return k.CoreV1().Pods("default").Bind(ctx, b, meta.CreateOptions{})
}

// TestAudit: a line that cannot be read is an error that names it; a line that is being
// written is not read.
func TestAudit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	line := `{"stage":"ResponseComplete","verb":"patch","user":{"username":"u"},"impersonatedUser":{"username":"v"},` +
		`"objectRef":{"resource":"jobs","apiGroup":"batch","subresource":"status"},"responseStatus":{"code":200}}` + "\n"
	for text, want := range map[string]string{
		line + line[:40]:        "v patch jobs.batch/status",
		line + "{" + "\n":       ":2: ",
		"":                      "",
		line[:len(line)-1]:      "",
		`{"verb":"get"}` + "\n": "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		writes, err := Audit(path)
		got := ""
		for _, w := range writes {
			got += w.User + " " + w.Kind()
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if _, err := Audit(path + ".not"); err == nil {
		t.Error("a log that is not there is read")
	}
}
