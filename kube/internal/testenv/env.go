// Package testenv runs a real Kubernetes control plane for tests and measurements: etcd
// and kube-apiserver of versions that a nested module pins, where asked for with
// kube-controller-manager and kube-scheduler, and no nodes (see fakekubelet).
//
// All listen on free ports of the loopback interface. Authorization is RBAC. The
// programs are built once, by Build; a test that lacks them is skipped.
package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/norn-scheduler/norn/kube/internal/pki"
)

// Env is a control plane that runs. Its methods may be called by several goroutines.
type Env struct {
	dir      string
	settings settings
	paths    map[string]string // of the programs
	ca       *pki.Authority
	token    string // of the administrator

	etcdPort, peerPort, port int
	etcd, apiServer          *Process
	manager, scheduler       *Process // nil: not asked for
}

// tries is how often other ports are tried where one was taken at the last moment.
const tries = 3

// Run starts a control plane whose files are in a folder, which it makes. It is ready
// when Run returns. It fails with ErrMissing where programs have not been built.
func Run(ctx context.Context, dir string, options ...Option) (*Env, error) {
	e := &Env{dir: dir}
	for _, o := range options {
		o(&e.settings)
	}
	var err error
	if e.paths, err = find(e.settings.programs()); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		err := e.begin(ctx)
		if err == nil {
			return e, nil
		}
		err = errors.Join(err, e.Stop())
		if try == tries || !strings.Contains(err.Error(), "address already in use") {
			return nil, err
		}
	}
}

// begin starts all programs on ports and in folders that nobody uses.
func (e *Env) begin(ctx context.Context) error {
	if err := os.RemoveAll(e.path("etcd")); err != nil {
		return err
	}
	if err := os.MkdirAll(e.dir, 0o700); err != nil {
		return err
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	e.etcdPort, e.peerPort, e.port = ports[0], ports[1], ports[2]
	if err := e.identities(); err != nil {
		return err
	}
	if err := e.processes(); err != nil {
		return err
	}
	for _, p := range e.all() {
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// identities makes the keys and certificates of a control plane, the kubeconfig of its
// administrator, and the audit policy.
func (e *Env) identities() error {
	var err error
	if e.ca, err = pki.New(); err != nil {
		return err
	}
	server, err := e.ca.Server()
	if err != nil {
		return err
	}
	front, err := e.ca.User(frontProxy, nil)
	if err != nil {
		return err
	}
	accounts, err := e.ca.User("service-accounts", nil) // who signs tokens of service accounts
	if err != nil {
		return err
	}
	e.token = rand.Text()
	for name, text := range map[string][]byte{
		"ca.crt": e.ca.PEM, "server.crt": server.Cert, "server.key": server.Key,
		"front.crt": front.Cert, "front.key": front.Key, "accounts.crt": accounts.Cert, "accounts.key": accounts.Key,
		"tokens.csv": fmt.Appendf(nil, "%s,admin,admin,\"system:masters\"\n", e.token),
		"audit.yaml": fmt.Appendf(nil, auditPolicy, e.settings.audit),
	} {
		if err := os.WriteFile(e.path(name), text, 0o600); err != nil {
			return err
		}
	}
	return kubeconfig(e.Kubeconfig(), e.address(), e.path("ca.crt"), e.token)
}

// frontProxy is the user by which the API server is known to servers behind it.
const frontProxy = "front-proxy"

// auditPolicy writes down what changes something.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: None, verbs: [get, list, watch]}
- {level: %q}
`

// processes says how each program is started.
func (e *Env) processes() error {
	client, err := rest.HTTPClientFor(e.Config())
	if err != nil {
		return err
	}
	e.etcd = e.process(etcd, e.etcdFlags(), func(ctx context.Context) error {
		return answers(ctx, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/readyz", e.etcdPort))
	})
	e.apiServer = e.process(apiServer, e.apiServerFlags(), func(ctx context.Context) error {
		if err := answers(ctx, client, "https://"+e.address()+"/readyz"); err != nil {
			return err
		}
		return answers(ctx, client, "https://"+e.address()+"/api/v1/namespaces/default") // made behind readiness
	})
	clientFlags := append([]string{"--kubeconfig=" + e.Kubeconfig(), "--secure-port=0", "--leader-elect=false"}, e.gates()...)
	if e.settings.managed {
		e.manager = e.process(controllerManager, append(append(clientFlags[:len(clientFlags):len(clientFlags)],
			"--use-service-account-credentials=false", "--service-account-private-key-file="+e.path("accounts.key"),
			"--root-ca-file="+e.path("ca.crt"), "--controllers="+controllers), e.settings.manager...), nil)
	}
	if e.settings.scheduled {
		e.scheduler = e.process(scheduler, append(append(clientFlags[:len(clientFlags):len(clientFlags)],
			"--kube-api-qps=5000", "--kube-api-burst=5000"), e.settings.scheduler...), nil)
	}
	return nil
}

// controllers are those that schedulers meet; flags of ControllerManager may add others.
const controllers = "namespace-controller,garbage-collector-controller,pod-garbage-collector-controller," +
	"node-lifecycle-controller,job-controller,taint-eviction-controller"

func (e *Env) process(name string, args []string, ready func(context.Context) error) *Process {
	return &Process{name: name, path: e.paths[name], args: args, log: e.path(name + ".log"), ready: ready}
}

func (e *Env) etcdFlags() []string {
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", e.etcdPort), fmt.Sprintf("http://127.0.0.1:%d", e.peerPort)
	return []string{
		"--data-dir=" + e.path("etcd"), "--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		"--unsafe-no-fsync", "--log-level=error",
	}
}

func (e *Env) apiServerFlags() []string {
	flags := []string{
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", e.etcdPort),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", e.port),
		"--tls-cert-file=" + e.path("server.crt"), "--tls-private-key-file=" + e.path("server.key"),
		"--client-ca-file=" + e.path("ca.crt"), "--token-auth-file=" + e.path("tokens.csv"), "--authorization-mode=RBAC",
		"--service-account-key-file=" + e.path("accounts.crt"), "--service-account-signing-key-file=" + e.path("accounts.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition", // else nodes stay tainted without a controller manager
		"--requestheader-client-ca-file=" + e.path("ca.crt"), "--requestheader-allowed-names=" + frontProxy,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + e.path("front.crt"), "--proxy-client-key-file=" + e.path("front.key"),
		"--allow-privileged=true", "--service-cluster-ip-range=10.0.0.0/24", "--kubelet-preferred-address-types=InternalIP",
	}
	flags = append(flags, e.gates()...)
	if len(e.settings.runtimeConfig) > 0 {
		flags = append(flags, "--runtime-config="+strings.Join(e.settings.runtimeConfig, ","))
	}
	if e.settings.audit != "" {
		flags = append(flags, "--audit-policy-file="+e.path("audit.yaml"), "--audit-log-path="+e.AuditLog())
	}
	return append(flags, e.settings.apiServer...)
}

// gates is the flag of feature gates, or nothing.
func (e *Env) gates() []string {
	if len(e.settings.gates) == 0 {
		return nil
	}
	return []string{"--feature-gates=" + strings.Join(e.settings.gates, ",")}
}

// answers asks for a page once, and fails unless it is there.
func answers(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10)) // for the message only
		return fmt.Errorf("%s: %s: %s", url, answer.Status, text)
	}
	return nil
}

// all are the programs in the order of their start.
func (e *Env) all() []*Process {
	var out []*Process
	for _, p := range []*Process{e.etcd, e.apiServer, e.manager, e.scheduler} {
		if p != nil {
			out = append(out, p)
		}
	}
	return out
}

// Stop ends all programs, etcd last: an API server without its etcd takes long to end.
func (e *Env) Stop() error {
	var errs []error
	all := e.all()
	for i := len(all) - 1; i >= 0; i-- {
		errs = append(errs, all[i].Stop())
	}
	return errors.Join(errs...)
}

// Etcd is the process of etcd.
func (e *Env) Etcd() *Process { return e.etcd }

// APIServer is the process of the API server.
func (e *Env) APIServer() *Process { return e.apiServer }

// ControllerManager is the process of the controller manager, or nil.
func (e *Env) ControllerManager() *Process { return e.manager }

// Scheduler is the process of kube-scheduler, or nil.
func (e *Env) Scheduler() *Process { return e.scheduler }

// Dir is the folder with the logs and all other files.
func (e *Env) Dir() string { return e.dir }

// Kubeconfig is the path of a kubeconfig of the administrator.
func (e *Env) Kubeconfig() string { return e.path("kubeconfig") }

// AuditLog is the path of the audit log, one JSON object a line: see Audit.
func (e *Env) AuditLog() string { return e.path("audit.log") }

// Config is a client configuration of the administrator, with protobuf and no limit on
// the pace of requests. Each call makes a new one.
func (e *Env) Config() *rest.Config {
	c := config(e.address(), e.ca.PEM)
	c.BearerToken = e.token
	return c
}

// As is a client configuration of another user, such as
// system:serviceaccount:norn:norn, who may do what RBAC lets her and her groups.
func (e *Env) As(user string, groups ...string) (*rest.Config, error) {
	identity, err := e.ca.User(user, groups)
	if err != nil {
		return nil, err
	}
	c := config(e.address(), e.ca.PEM)
	c.CertData, c.KeyData = identity.Cert, identity.Key
	return c, nil
}

func (e *Env) address() string { return fmt.Sprintf("127.0.0.1:%d", e.port) }

func (e *Env) path(name string) string { return filepath.Join(e.dir, name) }
