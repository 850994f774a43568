package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/live/gate"
	"github.com/norn-scheduler/norn/policy/tokens"
)

// gateFlags are what norn gate was asked.
type gateFlags struct {
	gate.Options
	policy          string
	upstreamKey     string // path
	maxBody, buffer string
}

func gateCommand() *cobra.Command {
	f := &gateFlags{}
	cmd := &cobra.Command{
		Use:   "gate",
		Short: "Share a server of a language model fairly among clients",
		Long: `Gate stands before a server that speaks the OpenAI HTTP API (vLLM, llama.cpp, TGI), and
lets requests through in the order of a policy of tokens. Under vtc, the default, each
client gets its share of tokens, whoever else floods the server. Streams are passed on
token by token; what a client has left is cancelled; nothing is sent to the server twice.

Each client has a key, of which a file has the hash: norn gate key makes keys. The file is
read again when it changes. GET /gate/queue, with its key, tells a client where its
requests stand and when they are expected to start. docs/gate.md says more.

--tokens-in-flight is how many tokens of prompts and answers the server has at once, such
as the size of its KV cache, which vLLM tells when it starts. With more than the server can
batch, requests would wait there, where nobody orders them.`,
		Example: `  norn gate key alice --keys keys.yaml
  norn gate --upstream http://127.0.0.1:8000 --keys keys.yaml --tokens-in-flight 60000
  norn gate --upstream http://127.0.0.1:8000 --keys keys.yaml --listen :443 --tls-cert cert.pem --tls-key key.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.Upstream, "upstream", "", "address of the server, such as http://127.0.0.1:8000")
	fl.StringVar(&f.upstreamKey, "upstream-key", "", "file with the key that the server asks for, if it asks for one")
	fl.StringVar(&f.Keys, "keys", "", "file with the clients and the hashes of their keys")
	fl.StringVar(&f.Listen, "listen", "127.0.0.1:7079", "address and port to listen on; others than loopback need TLS")
	fl.StringVar(&f.Cert, "tls-cert", "", "certificate (PEM)")
	fl.StringVar(&f.Key, "tls-key", "", "its key (PEM)")
	fl.StringVar(&f.policy, "policy", "vtc", "policy of tokens, such as vtc, 'vtc(predict=mean)' or fcfs; norn policies --tokens lists them")
	fl.IntVar(&f.InFlight, "tokens-in-flight", 16384, "tokens of prompts and answers that the server has at once")
	fl.IntVar(&f.Reserve, "reserve", 0, "tokens of output for which there must be room when a request begins, unless it asks for less (0: 1024, at most an eighth of --tokens-in-flight)")
	fl.IntVar(&f.Waiting, "waiting", 100, "requests of a client that may wait at once, where the file of keys says nothing")
	fl.IntVar(&f.WaitAll, "waiting-all", 10_000, "requests that may wait at once in all")
	fl.IntVar(&f.MaxConns, "connections", 4096, "connections at once")
	fl.StringVar(&f.maxBody, "max-body", "8MiB", "largest body of a request")
	fl.StringVar(&f.buffer, "buffer", "256KiB", "how much of an answer its client may leave unread before it is cancelled")
	fl.DurationVar(&f.Stall, "stall", 10*time.Minute, "a request is cancelled when the server has sent nothing for so long")
	fl.DurationVar(&f.Grace, "grace", 30*time.Second, "when the gate ends, requests in progress have so long to end")
	fl.BoolVar(&f.NoUsage, "no-usage", false, "do not ask the server for the usage at the end of streams (stream_options), for one that does not know that")
	complete(cmd, map[string]completer{"keys": files, "upstream-key": files, "tls-cert": files, "tls-key": files, "policy": completeList(tokenPolicyNames)})
	cmd.AddCommand(gateKeyCommand())
	return cmd
}

func tokenPolicyNames() []string {
	var names []string
	for _, e := range tokens.Table() {
		names = append(names, e.Name)
	}
	return names
}

// options are what a gate is made of.
func (f *gateFlags) options() (gate.Options, error) {
	o := f.Options
	switch {
	case o.Upstream == "":
		return o, misused("--upstream is missing: the address of the server, such as http://127.0.0.1:8000")
	case o.Keys == "":
		return o, misused("--keys is missing: the file with the clients; norn gate key NAME --keys FILE makes one")
	}
	policies, err := tokenPolicies([]string{f.policy}, nil, "a gate")
	if err != nil {
		return o, err
	}
	if len(policies) != 1 {
		return o, misused("--policy %s: only one policy is in force at a time", f.policy)
	}
	o.Policy = policies[0].cfg
	body, err := unit.ParseBytes(f.maxBody)
	if err != nil || body < 1 || body > 1<<30 {
		return o, misused("--max-body %s: write a size from 1B to 1GiB, such as 8MiB", f.maxBody)
	}
	o.MaxBody = int64(body)
	buffer, err := unit.ParseBytes(f.buffer)
	if err != nil || buffer < 1 || buffer > 1<<30 {
		return o, misused("--buffer %s: write a size from 1B to 1GiB, such as 256KiB", f.buffer)
	}
	o.Buffer = int(buffer)
	if f.upstreamKey != "" {
		text, err := os.ReadFile(f.upstreamKey)
		if err != nil {
			return o, fmt.Errorf("--upstream-key: %w", err)
		}
		o.UpstreamKey = strings.TrimSpace(string(text))
	}
	return o, nil
}

func (f *gateFlags) run(cmd *cobra.Command) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	o.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	g, err := gate.New(o)
	if err != nil {
		return err
	}
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	defer signal.Stop(again)
	o.Log.Info("the gate is open", "address", g.Addr().String(), "upstream", o.Upstream, "policy", f.policy, "tokens", o.InFlight)
	err = g.Serve(cmd.Context(), again)
	if err == nil && errors.Is(cmd.Context().Err(), context.Canceled) {
		o.Log.Info("the gate has ended")
	}
	return err
}

func gateKeyCommand() *cobra.Command {
	c := gate.Client{Weight: 1}
	path := ""
	cmd := &cobra.Command{
		Use:   "key NAME",
		Short: "Make the key of a client of norn gate",
		Long: `Key makes a key for a client, and prints it once: it is kept nowhere. With --keys the
client and the SHA-256 of its key are added to that file, which is made where there is
none; a gate that runs reads it again by itself. Without --keys the line for the file is
printed.

A client may have several keys, so that one can be changed: hashes, a list, instead of
hash. Who is taken out of the file is let in no more.`,
		Example: `  norn gate key alice --keys keys.yaml
  norn gate key batch --weight 0.5 --keys keys.yaml
  norn gate key prometheus --operator --keys keys.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Name = args[0]
			if err := c.Check(); err != nil {
				return misused("%w", err)
			}
			key := gate.NewKey()
			c.Hashes = []gate.Hash{gate.HashOf(key)}
			if path != "" {
				if err := gate.AddKey(path, &c); err != nil {
					return err
				}
				remark(cmd, "%s was added to %s; this is its key, which cannot be shown again:", c.Name, path)
				_, err := fmt.Fprintln(cmd.OutOrStdout(), key)
				return err
			}
			remark(cmd, "the key, which is kept nowhere and cannot be shown again, and the line for the file of keys:")
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s\n", key, c.Line())
			return err
		},
	}
	cmd.Flags().StringVar(&path, "keys", "", "file to which the client is added")
	cmd.Flags().Float64Var(&c.Weight, "weight", 1, "its share of tokens, beside clients who have 1")
	cmd.Flags().BoolVar(&c.Operator, "operator", false, "it may see all clients, and metrics")
	complete(cmd, map[string]completer{"keys": files})
	return cmd
}
