package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Bugs that are planted from outside, to prove that the test finds them.
const (
	plantedNone     = ""
	plantedClaim    = "lost-claim" // a claim that was acknowledged is deleted in etcd
	plantedCompares = "compares"   // transactions lose the compares of records: concurrent changes overwrite each other
	plantedLease    = "lease"      // transactions lose the compare of the lease: a host that is gone goes on writing
)

// plant is called after each fault has begun.
func (w *world) plant() {
	if w.settings.Planted != plantedClaim || w.etcd == nil {
		return
	}
	time.Sleep(300 * time.Millisecond)
	found, err := w.etcd.list(prefix + "shared/claims/")
	if err == nil && len(found.Kvs) > 0 {
		err = w.etcd.delete(string(found.Kvs[w.between(0, len(found.Kvs))/time.Millisecond].Key))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "plant:", err)
	}
}

// A proxy stands between a manager and a member of etcd. It passes everything on, except the compares that it drops.
type proxy struct {
	server *grpc.Server
	member *grpc.ClientConn
	drop   string
}

// A frame is a message that is not decoded.
type frame struct{ bytes []byte }

type frameCodec struct{}

func (frameCodec) Marshal(v any) ([]byte, error) { return v.(*frame).bytes, nil }
func (frameCodec) Unmarshal(data []byte, v any) error {
	v.(*frame).bytes = append([]byte(nil), data...)
	return nil
}
func (frameCodec) Name() string { return "frame" }

func startProxy(port, memberPort int, drop string) (*proxy, error) {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	member, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", memberPort), plain(), grpc.WithConnectParams(quickly()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(frameCodec{})))
	if err != nil {
		return nil, err
	}
	p := &proxy{member: member, drop: drop}
	p.server = grpc.NewServer(grpc.ForceServerCodec(frameCodec{}), grpc.UnknownServiceHandler(p.pass))
	go p.server.Serve(listener)
	return p, nil
}

func (p *proxy) stop() {
	p.server.Stop()
	p.member.Close()
}

func (p *proxy) pass(_ any, client grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(client)
	ctx, cancel := context.WithCancel(client.Context())
	defer cancel()
	if headers, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, headers)
	}
	member, err := p.member.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	go func() {
		for {
			var request frame
			if client.RecvMsg(&request) != nil {
				_ = member.CloseSend()
				return
			}
			if method == "/etcdserverpb.KV/Txn" {
				request.bytes = p.strip(request.bytes)
			}
			if member.SendMsg(&request) != nil {
				return
			}
		}
	}()
	for {
		var answer frame
		if err := member.RecvMsg(&answer); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := client.SendMsg(&answer); err != nil {
			return err
		}
	}
}

// strip leaves the compares of the lease, or of everything else.
func (p *proxy) strip(bytes []byte) []byte {
	var transaction etcdserverpb.TxnRequest
	if transaction.Unmarshal(bytes) != nil {
		return bytes
	}
	var left []*etcdserverpb.Compare
	for _, compare := range transaction.Compare {
		ofLease := strings.HasPrefix(string(compare.Key), prefix+"live/")
		if ofLease == (p.drop == plantedCompares) {
			left = append(left, compare)
		}
	}
	transaction.Compare = left
	stripped, err := transaction.Marshal()
	if err != nil {
		return bytes
	}
	return stripped
}
