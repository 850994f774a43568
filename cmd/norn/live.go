package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/client"
	"github.com/norn-scheduler/norn/local/config"
	"github.com/norn-scheduler/norn/local/rundir"
)

// daemon is a running Norn. A client.Client is one.
type daemon interface {
	Submit(ctx context.Context, spec api.JobSpec) ([]string, error)
	Jobs(ctx context.Context, q api.Query) ([]api.Job, error)
	Job(ctx context.Context, id string) (api.Job, error)
	Why(ctx context.Context, id string) (api.Why, error)
	Do(ctx context.Context, verb, id string) error
	Resize(ctx context.Context, id string, r api.Resize) error
	Input(ctx context.Context, id string, in api.Input) error
	Logs(ctx context.Context, id string, o client.LogOptions) (io.ReadCloser, error)
	Node(ctx context.Context) (api.Node, error)
	Nodes(ctx context.Context, q api.NodeQuery) ([]api.Node, error)
	Status(ctx context.Context) (api.Status, error)
	Drain(ctx context.Context, d api.Drain) error
	Reclaim(ctx context.Context, r api.Reclaim) ([]string, error)
	SetPolicy(ctx context.Context, choice string) error
	EventLog(ctx context.Context, w io.Writer) error
	Fsck(ctx context.Context, repair bool) (api.Fsck, error)
	Watch(ctx context.Context, since int64, each func(api.Event) error) error
	Proxy() http.Handler
}

// shell is what the verbs of a live Norn know of the shell that they are called
// in, and how they reach Norn from there.
type shell struct {
	connect func(s *shell, w where) (daemon, error)
	now     func() time.Time
	environ func() []string
	dir     func() (string, error)
	user    func() (string, error) // whose shell it is
	// process is the mask of rights and the limits of the shell, as api.JobSpec has them.
	process func() (umask string, ulimits map[string]string)
}

// theShell is the shell in which this program runs.
func theShell() *shell {
	return &shell{connect: dial, now: time.Now, environ: os.Environ, dir: os.Getwd, user: userName, process: ofProcess}
}

func (s *shell) commands() []*cobra.Command {
	return []*cobra.Command{
		s.submitCommand(), s.runCommand(), s.attachCommand(), s.psCommand(), s.topCommand(), s.logsCommand(), s.whyCommand(),
		s.cancelCommand(), s.holdCommand(), s.releaseCommand(), s.requeueCommand(), s.resizeCommand(),
		s.historyCommand(), s.statusCommand(), s.nodesCommand(), s.fsckCommand(), s.eventsCommand(), s.drainCommand(), s.undrainCommand(), s.reclaimCommand(), s.lendCommand(), s.useCommand(), s.planCommand(), s.autotuneCommand(), s.webCommand(),
	}
}

func userName() (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	return u.Username, nil
}

// getenv is a variable of the shell, or nothing.
func (s *shell) getenv(name string) string {
	value, _ := s.lookup(name)
	return value
}

// where is which Norn is meant, as the flags of a verb have it.
type where struct {
	server, tokenFile, ca string
	kube                  string // a cluster that norn kube up schedules from here; "*": whichever
}

// whereFlags are the flags that name a Norn.
func whereFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.String("server", "", "socket or URL of the Norn to talk to (default: $NORN_SERVER, or the socket of this machine)")
	f.String("kube", "", "talk to norn kube up, to that of a cluster with --kube=CLUSTER")
	f.Lookup("kube").NoOptDefVal = anyCluster
	f.String("token-file", "", "file with the token for a URL (default: $NORN_TOKEN_FILE, or the token itself in $NORN_TOKEN)")
	f.String("ca", "", "certificates to trust for https, in PEM (default: those of the system)")
	complete(cmd, map[string]completer{"token-file": files, "ca": files, "server": files})
}

// files completes the names of files.
func files(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// open connects a verb with the Norn that its flags name.
func (s *shell) open(cmd *cobra.Command) (daemon, error) {
	text := func(name string) string { return cmd.Flags().Lookup(name).Value.String() }
	d, err := s.connect(s, where{server: text("server"), tokenFile: text("token-file"), ca: text("ca"), kube: text("kube")})
	return d, refused(err)
}

// dial connects over HTTP.
func dial(s *shell, w where) (daemon, error) {
	if w.kube != "" {
		path, err := s.kubeSocket(w)
		if err != nil {
			return nil, err
		}
		w.server = path
	}
	addr := s.address(w.server)
	token, err := s.token(w.tokenFile, addr)
	if err != nil {
		return nil, err
	}
	return client.New(addr, token, w.ca)
}

// address is the socket or URL of the Norn that is meant.
func (s *shell) address(named string) string {
	if addr := cmp.Or(named, s.getenv("NORN_SERVER"), s.getenv(rundir.EnvSocket)); addr != "" {
		return addr
	}
	sockets := s.sockets()
	there := slices.Clone(sockets)
	there = slices.DeleteFunc(there, func(path string) bool {
		_, err := os.Stat(path)
		return err != nil
	})
	for _, path := range there { // one that is left over from a Norn that died answers nobody
		if answered(path) {
			return path
		}
	}
	return append(there, sockets...)[0]
}

// answered tells whether somebody listens on a socket.
func answered(path string) bool {
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// anyCluster stands for the one cluster that is scheduled from here.
const anyCluster = "*"

// kubeSocket is the socket of norn kube up.
func (s *shell) kubeSocket(w where) (string, error) {
	if w.server != "" {
		return "", misused("--kube or --server, not both")
	}
	pattern := filepath.Join(config.KubeState(s.getenv, w.kube), "norn.sock")
	if w.kube == anyCluster {
		pattern = filepath.Join(filepath.Dir(config.KubeState(s.getenv, "any")), "*", "norn.sock")
	}
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", misused("--kube %s is no name of a cluster", w.kube)
	}
	found = slices.DeleteFunc(found, func(path string) bool { return !answered(path) })
	switch {
	case len(found) == 0:
		return "", errors.New("no norn kube up runs here; norn docs kubernetes tells how to ask one that runs in the cluster")
	case len(found) > 1:
		return "", misused("several clusters are scheduled from here, say which with --kube=CLUSTER: %s", strings.Join(clusters(found), ", "))
	}
	return found[0], nil
}

// clusters are the names of clusters whose sockets these are.
func clusters(sockets []string) []string {
	var out []string
	for _, path := range sockets {
		out = append(out, filepath.Base(filepath.Dir(path)))
	}
	return out
}

// sockets are the paths at which norn up listens unless told otherwise, those
// first that concern the caller most.
func (s *shell) sockets() []string {
	const system = "/run/norn.sock"
	var own []string
	if dir := s.getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		own = append(own, filepath.Join(dir, "norn.sock"))
	}
	if dir := s.getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		own = append(own, filepath.Join(dir, "norn", "norn.sock"))
	} else if home := s.getenv("HOME"); filepath.IsAbs(home) {
		own = append(own, filepath.Join(home, ".local", "state", "norn", "norn.sock"))
	}
	if os.Geteuid() == 0 {
		return append([]string{system}, own...)
	}
	return append(own, system)
}

// token is what proves who calls. A socket knows that without one: there, only a
// token that was named is sent, since $NORN_TOKEN is that of a job inside of it.
func (s *shell) token(file, addr string) (string, error) {
	url := strings.Contains(addr, "://")
	if file == "" && url {
		file = s.getenv("NORN_TOKEN_FILE")
	}
	if file == "" {
		if url {
			return s.getenv(rundir.EnvToken), nil
		}
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("the token cannot be read: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("the token cannot be read: %s is empty", file)
	}
	return token, nil
}

// refused makes a refusal of what cannot be understood an error of usage.
func refused(err error) error {
	var r *api.Error
	if errors.As(err, &r) && r.Kind == api.Invalid {
		return &usageError{err}
	}
	return err
}

// exitCode ends the program with the exit code of a job; all has been said.
type exitCode int

// Error implements error.
func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// lost tells whether an error may be over soon: Norn is being started anew, or
// the connection to it broke.
func lost(err error) bool {
	var r *api.Error
	if errors.As(err, &r) {
		return r.Kind == api.Unavailable
	}
	var n net.Error
	var gone *client.NotRunning
	var broken *brokenOff
	return errors.As(err, &gone) || errors.As(err, &broken) || errors.As(err, &n) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// format is how a verb writes its results.
type format struct {
	name string
	json bool
}

// flags adds -o with the names that the verb knows besides text and json.
func (f *format) flags(cmd *cobra.Command, others ...string) {
	known := append([]string{"text", "json"}, others...)
	cmd.Flags().StringVarP(&f.name, "output", "o", "text", "format of the results: "+strings.Join(known, ", "))
	cmd.Flags().BoolVar(&f.json, "json", false, "write JSON, as -o json does")
	complete(cmd, map[string]completer{"output": words(known...)})
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.json {
			f.name = "json"
		}
		if !slices.Contains(known, f.name) {
			return misused("--output %s: write one of %s", f.name, strings.Join(known, ", "))
		}
		return run(cmd, args)
	}
}

// asked makes a verb of a function that is given the Norn that is meant.
func (s *shell) asked(run func(cmd *cobra.Command, d daemon, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		d, err := s.open(cmd)
		if err != nil {
			return err
		}
		return refused(run(cmd, d, args))
	}
}

// remark writes to standard error what is no result.
func remark(cmd *cobra.Command, text string, args ...any) {
	fmt.Fprintf(cmd.ErrOrStderr(), "norn: "+text+"\n", args...)
}

// asJSON writes a list as JSON; an empty one as [].
func asJSON[T any](out io.Writer, list []T) error {
	if list == nil {
		list = []T{}
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(list)
}
