// SPDX-License-Identifier: Apache-2.0
//
// id: random ids of runs and requests, as UUID version 4.

#ifndef CONSTRICTOR_BASE_ID_H
#define CONSTRICTOR_BASE_ID_H

enum { ID_SIZE = 37 };
int id_new(char ret[ID_SIZE]); // 0, or -1 and "": the kernel gives no random bytes

#endif
